"""A headless Chromium for tests; those that need one are skipped where there is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of playwright, running the Chromium of the system, or the one that playwright has installed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
        if not os.path.exists(found):
            pytest.skip("no Chromium: install the package chromium, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=found)
        try:
            yield browser
        finally:
            browser.close()
