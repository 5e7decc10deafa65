"""warpsim: a Monte Carlo simulator of GPU warp schedulers.

The public names are listed in `__init__.pyi`. Each is imported when it is first used, so that importing warpsim is fast.
`kernels` holds the builders of kernels, `models` the analytical models, `plots` the figures.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["__version__"]


def __dir__() -> list[str]:
    return sorted(__all__)
