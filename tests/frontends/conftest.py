"""What tests of several files need: the vendor's compiler and disassembler."""

import pytest

from warpsim.frontends.errors import MissingToolError
from warpsim.frontends.machine_code.nvdisasm import find_nvdisasm
from warpsim.frontends.sources.nvrtc import nvrtc_version


@pytest.fixture
def compiler():
    """The version of NVRTC; a test that needs it, or nvdisasm, is skipped where they are not installed."""
    try:
        version = nvrtc_version()
    except MissingToolError as error:
        pytest.skip(str(error))
    if find_nvdisasm() is None:
        pytest.skip("needs nvidia-cuda-nvdisasm, of warpsim[cuda]")
    return version
