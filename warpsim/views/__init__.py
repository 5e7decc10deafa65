"""Presents results: figures, the HTML report, timelines and text tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["plots"])
