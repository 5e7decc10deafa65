"""Variables in constant memory: arguments give them by name; others keep what the source says, and the host may set them."""

import re

import pytest

import warpsim as ws
from tests.support.executions import counts
from warpsim import cli
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.launch.variables import with_values
from warpsim.frontends.machine_code.cubin import read_cubin
from warpsim.frontends.machine_code.sass_text import parse_listing, write_listing
from warpsim.frontends.sources.cuda_source import compiled_source
from warpsim.frontends.sources.nvrtc import compile_apart
from warpsim.kernels.traversal import issued

SUM = """
__global__ void total(const float *x, float *y PARAMETERS) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int k = 0; k < TRIPS; k++) s += FACTOR * x[i + k * STRIDE];
    y[i] = s;
}
"""
VARIABLES = """namespace sizes {
struct Size { float factor; int unused, stride; const float *pointer; };
__constant__ Size size;
}
__constant__ int trips[3];
"""
LAUNCH = (4096, 256)


def source(before, parameters="", trips="trips[1]", stride="sizes::size.stride", factor="sizes::size.factor"):
    """Returns the source of a sum over some trips, with what stands before the kernel."""
    text = before + SUM.replace("PARAMETERS", parameters).replace("TRIPS", trips)
    return text.replace("STRIDE", stride).replace("FACTOR", factor)


OF_VARIABLES = source(VARIABLES)
OF_PARAMETERS = source("", ", int trips, int stride, float factor", "trips", "stride", "factor")


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("stride", [1, 64])
@pytest.mark.filterwarnings("error")
def test_a_kernel_may_have_its_sizes_in_constant_memory_or_as_arguments(compiler, arch, stride):
    sizes = {"trips[1]": 13, "size.stride": stride}
    kernel = ws.kernels.from_cuda(OF_VARIABLES, arch=arch, launch=LAUNCH, args=sizes)
    other = ws.kernels.from_cuda(OF_PARAMETERS, arch=arch, launch=LAUNCH, args={"trips": 13, "stride": stride})
    found, expected = (counts(one) for one in (kernel, other))
    assert found["load"] == expected["load"] == 13 and found["store"] == 1
    accesses = [[each.access for each in issued(one.body) if each.op == "load"] for one in (kernel, other)]
    assert accesses[0] == accesses[1]


def test_variables_that_the_host_sets_are_named_where_trips_depend_on_them(compiler):
    with pytest.raises(FrontEndError) as failure:
        ws.kernels.from_cuda(OF_VARIABLES, launch=LAUNCH)
    assert "the host sets variables in constant memory: trips[1], size.stride;" in str(failure.value)
    assert "; give them as arguments, such as --args trips[1]=number" in str(failure.value)
    with pytest.raises(FrontEndError, match=re.escape("variables in constant memory: trips[1], size.factor, size.stride")):
        ws.kernels.from_cuda(OF_VARIABLES, launch=LAUNCH, args={"trip": 1})
    for value in (2**32, 1.5, "4"):
        with pytest.raises(FrontEndError, match=re.escape("args['trips[1]']")):
            ws.kernels.from_cuda(OF_VARIABLES, launch=LAUNCH, args={"trips[1]": value})


@pytest.mark.parametrize("kind", ["int", "unsigned", "long long", "short"])
def test_a_variable_keeps_the_value_of_the_source_unless_it_is_given(compiler, kind):
    text = source(f"static __constant__ {kind} trips = 7;", trips="trips", stride="1024", factor="1.0f")
    with pytest.warns(AssumptionWarning, match=r"taken to keep the values that the source gives them: trips=7;"):
        kept = ws.kernels.from_cuda(text, launch=LAUNCH)
    given = ws.kernels.from_cuda(text, launch=LAUNCH, args={"trips": 5})
    assert [counts(one)["load"] for one in (kept, given)] == [7, 5]


@pytest.mark.filterwarnings("error")
def test_a_table_of_floating_point_numbers_is_taken_silently(compiler):
    text = source("__constant__ float factors[300] = {1, 2, 3};", trips="9", stride="1024", factor="factors[k]")
    assert counts(ws.kernels.from_cuda(text, launch=LAUNCH))["load"] == 9


def test_a_listing_and_a_cubin_keep_variables(compiler, tmp_path):
    function = compiled_source(OF_VARIABLES, "", "sm_80", None, None, [])
    assert [one.name for one in function.variables] == ["trips[1]", "size.factor", "size.stride"]
    text = write_listing(function)
    (again,) = parse_listing(text)
    assert again.variables == function.variables
    given, others = with_values(again, {"trips[1]": 3, 0: 5})
    assert (given.variables[0].value, others) == ((3).to_bytes(4, "little"), {0: 5})
    for wrong in ("4:4:n=00", "4:4:n=zz", "4:4", "70000:4:n"):
        with pytest.raises(FrontEndError, match=r"\.variables"):
            parse_listing(text.replace(".source", f".variables {wrong}\n.source"))
    initial = source("__constant__ long trips = 7;\n", trips="trips", stride="1024", factor="1.0f")
    path = tmp_path / "sum.cubin"
    path.write_bytes(compile_apart(initial, "sum.cu", "sm_90", options=[]))
    with pytest.warns(AssumptionWarning, match="trips=7"):
        kernel = ws.kernels.from_cubin(path, launch=LAUNCH)
    assert counts(kernel)["load"] == 7


def test_addresses_are_no_values_of_the_source(compiler):
    """The file has zeros where the address of a variable of the device is written when it is loaded."""
    text = "__device__ float data[4096]; struct P { float *x; int n; }; __constant__ P p = {data, 3}; __constant__ int m = -2;\n"
    text += "__global__ void f(float *y) { for (int i = m; i < p.n; i++) y[i * 32] = p.x[threadIdx.x]; }"
    (function,) = read_cubin(compile_apart(text, "f.cu", "sm_80", options=[])).functions.values()
    assert {one.name: one.value for one in function.variables} == {"p": b"", "m": (-2).to_bytes(4, "little", signed=True)}


def test_the_command_line_takes_several_arguments_apart(compiler, tmp_path, capsys):
    path = tmp_path / "sum.cu"
    path.write_text(OF_VARIABLES)
    command = ["import", str(path), "--launch", "4096,256", "-o", str(tmp_path / "sum.toml")]
    sizes = ["trips[1]=3", "size.stride=1024"]
    assert cli.main([*command, "--args", ",".join(sizes)]) == 2
    assert "must be --args trips[1]=3 --args size.stride=1024" in capsys.readouterr().err
    assert cli.main([*command, *(word for one in sizes for word in ("--args", one))]) == 0
