"""The models and where each is defined."""

import types

from . import add_or_overlap as add_or_overlap
from . import baghsorkhi as baghsorkhi
from . import chen_aamodt as chen_aamodt
from . import coarse_grained as coarse_grained
from . import cuda_guide as cuda_guide
from . import huang as huang
from . import littles_law as littles_law
from . import roofline as roofline
from . import volkov as volkov
from . import zhang_owens as zhang_owens
from .hong_kim import mwp_cwp as mwp_cwp
from .lemeire import pipeline as pipeline
from .parts.common import NotCoveredError as NotCoveredError
from .parts.common import over_alpha as over_alpha
from .sim_2012 import gpuperf as gpuperf

NAMES: tuple[str, ...]

def load(name: str) -> types.ModuleType: ...
