"""A headless Chromium for tests. Tests that need it are skipped if it is not installed."""

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
    """Yields a playwright browser that runs the Chromium of the system, or else the one installed by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        executable = next(filter(None, map(shutil.which, NAMES)), None) or playwright.chromium.executable_path
        if not os.path.exists(executable):
            pytest.skip("no Chromium: install the package chromium, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=executable)
        try:
            yield browser
        finally:
            browser.close()
