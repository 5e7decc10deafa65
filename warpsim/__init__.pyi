"""The public names of warpsim, and where each is defined."""

from . import kernels as kernels
from . import models as models
from .analysis.advice import advise as advise
from .analysis.comparison import Comparison as Comparison
from .analysis.comparison import compare as compare
from .arguments import DeadlockError as DeadlockError
from .arguments import InvalidPoint as InvalidPoint
from .hardware.chip_file import write_queue_parameters as write_queue_parameters
from .hardware.gpu import Gpu as Gpu
from .hardware.gpu import GpuFileError as GpuFileError
from .hardware.gpu import list_gpus as list_gpus
from .hardware.gpu import load_gpu as load_gpu
from .hardware.residency import Launch as Launch
from .hardware.residency import Residency as Residency
from .kernels import Access as Access
from .kernels import Conditional as Conditional
from .kernels import Cost as Cost
from .kernels import Instruction as Instruction
from .kernels import Kernel as Kernel
from .kernels import KernelFileError as KernelFileError
from .kernels import Loop as Loop
from .kernels import list_kernels as list_kernels
from .kernels import load_kernel as load_kernel
from .kernels.residency import occupancy as occupancy
from .profiles.api import Profile as Profile
from .profiles.api import from_profile as from_profile
from .profiles.errors import ProfileError as ProfileError
from .profiles.machine_code import from_report as from_report
from .simulation.api import simulate as simulate
from .simulation.launches import LaunchTime as LaunchTime
from .simulation.launches import launch_time as launch_time
from .simulation.point import from_provenance as from_provenance
from .simulation.predictions import PredictionInterval as PredictionInterval
from .simulation.run import TraceLimitError as TraceLimitError
from .simulation.trace import Trace as Trace
from .store.place import StoreError as StoreError
from .store.zarr_store import open_results as open_results
from .sweeps.local import SweepError as SweepError
from .sweeps.local import sweep as sweep
from .sweeps.plan import Plan as Plan
from .views import plots as plots

__version__: str
