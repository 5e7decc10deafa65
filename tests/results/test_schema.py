"""The declarations of results: complete, consistent, and equal to the result of `simulate`."""

import numpy as np
import pytest

from warpsim.engine.constants import WarpState
from warpsim.hardware.gpu import load_gpu
from warpsim.kernels import mix
from warpsim.results import schema
from warpsim.simulation.api import simulate
from warpsim.sweeps.settings import DEFAULTS
from warpsim.units import OPS


@pytest.fixture(scope="module")
def result():
    return simulate(load_gpu("kepler"), mix(alpha=2), warps=8, sms=1, warmup=0, cycles=300, replicates=2)


def test_names_are_unique():
    names = [declared.name for declared in (*schema.VARIABLES, schema.VALID)]
    assert len(set(names)) == len(names)


def test_every_variable_has_a_unit_and_a_long_name():
    for declared in (*schema.VARIABLES, schema.VALID):
        assert declared.units and declared.long_name


def test_no_dimension_has_the_name_of_a_variable():
    dims = {dim for declared in schema.VARIABLES for dim in declared.dims}
    assert not dims & {declared.name for declared in schema.SWEEP_VARIABLES}


def test_every_setting_of_a_plan_that_can_label_a_result_is_described():
    assert set(DEFAULTS) - set(schema.COORDINATES) == {"replicates", "cycles"}


def test_simulate_returns_the_declared_variables(result):
    assert list(result.data_vars) == [declared.name for declared in schema.VARIABLES]
    for declared in schema.VARIABLES:
        array = result[declared.name]
        assert array.dims == declared.dims
        assert array.dtype == declared.dtype
        assert array.attrs == {"units": declared.units, "long_name": declared.long_name}


def test_simulate_labels_every_dimension(result):
    assert result["op"].values.tolist() == list(OPS)
    assert result["state"].values.tolist() == list(schema.STATES)
    assert result["slot"].values.tolist() == list(schema.SLOTS)
    np.testing.assert_array_equal(result["quantile"], schema.QUANTILES)
    assert all("long_name" in result[dim].attrs for dim in result.dims)


def test_the_states_are_those_of_the_engine():
    assert schema.STATES == tuple(state.name.lower() for state in WarpState)


def test_warp_cycles_and_scheduler_cycles_add_up(result):
    np.testing.assert_array_equal(result["warp_cycles"].sum("state"), result["occupancy"] * result["cycles"])
    np.testing.assert_array_equal(result["scheduler_cycles"].sum("slot"), 4 * result["cycles"])


def test_ops_of_several_chips_are_a_union_with_the_common_ones_first():
    kepler = load_gpu("kepler")
    own = kepler.model_copy(update={"ops": {**kepler.ops, "fp64": kepler.ops["alu"]}})
    other = kepler.model_copy(update={"ops": {"tensor": kepler.ops["alu"], **kepler.ops}})
    assert schema.result_ops([kepler]) == OPS
    assert schema.result_ops([own, kepler, other]) == (*OPS, "fp64", "tensor")


def test_unknown_variable_is_named():
    with pytest.raises(ValueError, match="variable = 'ipcs': must be one of cycles"):
        schema.variable("ipcs")


def test_an_axis_without_a_description_is_described_by_its_name():
    assert schema.coordinate_attrs("kernel_op") == {"units": "1", "long_name": "kernel op"}


def test_coordinates_of_other_dimensions_are_left_out():
    made = schema.build_dataset(
        {"valid": np.ones(2, bool)}, {"warps": [4, 8], "op": ["alu"]}, axes=("warps",)
    )
    assert set(made.coords) == {"warps"}
    assert made["warps"].attrs["units"] == "warps/SM"
