"""CUDA sources with code for the host: what NVRTC is given of them, and that their kernels are those of the source."""

import re
import sys

import pytest

import warpsim as ws
from tests.support.executions import expected_ops
from warpsim.frontends import listings
from warpsim.frontends.errors import AssumptionWarning, CompileError
from warpsim.frontends.sources.cuda_headers import included, short_headers
from warpsim.frontends.sources.host_code import macros_of, without_host_code
from warpsim.frontends.sources.instances import kernel_templates, named_instances

WHOLE = r"""
#include <cstdio>
#include <iostream>
#include <vector>
#include <cmath>
#include <cuda_runtime.h>
#include "book.h"
using std::cout;
#define N 1024
#define CHECK(call) do { \
    cudaError_t e = (call); if (e != cudaSuccess) { printf("%s {\n", cudaGetErrorString(e)); exit(1); } } while (0)
#define BOTH __host__ __device__ inline
#define INSTANCE(T) template __global__ void sum<T>(T *, int);

static const int offsets[] = {1, 2, 3};
std::vector<float> table = {1.f, 2.f};
cudaStream_t stream;
enum Mode { FAST, SLOW };
struct Shape { int n; float a; Shape(int n_) : n(n_), a(1) {} bool empty() const { return n == 0; } };
typedef float (*Function)(float);

void initialize(std::vector<float> &v, int n = 5);
BOTH float square(float x) { return x * x; }
constexpr int twice(int n) { return 2 * n; }
namespace {
__device__ float cube(float x) { return x * x * x; }
float host_cube(float x) { return x * x * x; /* } */ }
}
extern "C" {
void host_function(const char *text) { printf("}%s", text); }
}
template <typename T, int B>
__global__ void scale(T *x, T a, int n)
{
    __shared__ T s[B];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { s[threadIdx.x] = x[i]; __syncthreads(); x[i] = square(s[threadIdx.x]) * a + twice(3); }
}
__global__ void limit(float *x, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = std::fmin(cube(x[i]), INFINITY) * float(M_PI);
}
void initialize(std::vector<float> &v, int n) { for (auto &x : v) x = rand() / '}'; }
std::ostream &operator<<(std::ostream &out, const Shape &shape) { return out << shape.n; }
template <class T> T host_sum(const T *x, int n) { T s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
int main(int argc, char **argv)
{
    float *d;
#ifdef SLOW_COPY
    CHECK(cudaMalloc(&d, 2 * N * sizeof(float)));
#else
    CHECK(cudaMalloc(&d, N * sizeof(float)));
#endif
    int size = 64;
    scale<float, 128><<<N / 128, 128>>>(d, 2.f, N);
    limit<<<1, N>>>(d, N);
    cout << "done" << size << std::endl;
    return 0;
}
"""

OF_HOST = ["table", "initialize", "host_cube", "host_function", "operator", "host_sum", "main"]


def test_functions_of_the_host_are_left_out_and_all_else_keeps_its_place():
    of_device, of_host = without_host_code(WHOLE)
    assert len(of_device) == len(WHOLE) and of_device.count("\n") == WHOLE.count("\n")
    for number, (line, before) in enumerate(zip(of_device.splitlines(), WHOLE.splitlines(), strict=True)):
        assert all(a in (b, " ") for a, b in zip(line, before, strict=True)), number
    for name in OF_HOST:
        assert not re.search(rf"\b{name}\b", of_device), name
        assert re.search(rf"\b{name}\b", of_host), name
    kept = "offsets stream Mode Shape Function square twice cube scale limit SLOW_COPY else endif CHECK INSTANCE"
    for name in kept.split():
        assert re.search(rf"\b{name}\b", of_device), name


@pytest.mark.parametrize("path", sorted(listings.folder().glob("*.cu")), ids=lambda path: path.stem)
def test_a_source_without_host_code_stays_as_it_is(path):
    source = path.read_text(encoding="utf-8")
    assert without_host_code(source) == (source, "")


CASES = {
    "a type with an attribute": ("struct alignas(8) A { float x; };\nstruct __align__(16) B { float y; };", ""),
    "a specialization with one": ("template<> struct alignas(8) T<float> { static constexpr int N = 4; };", ""),
    "macros of macros": ("#define HD __host__ __device__\n#define HDI HD inline\nHDI float f(float x) { return x; }", ""),
    "what may be annotated": ("LIB_HOST_DEVICE float f(float x) { return x; }", ""),
    "heads under conditions": (
        "#ifdef D\nvoid f(double *x) {\n#else\nvoid f(float *x) {\n#endif\n}\n__device__ int d() { return 1; }",
        "f",
    ),
    "kernels under conditions": (
        "#ifdef D\n__global__ void k(double *x) {\n#else\n__global__ void k(float *x) {\n#endif\n}\nint g() {}",
        "g",
    ),
    "what never counts": ("#if 0\n{ {\n#endif\n__device__ int d() { return 1; }\nint g() { return 1; }", "g"),
    "what is for other systems": (
        "#if defined(WIN32) || defined(_WIN32)\nvoid f(HANDLE h) {\n#else\nvoid f(pthread_t h) {\n#endif\n}\n"
        "#ifndef _WIN32\nint g() {\n#else\nint g(int) {\n#endif\n}\n__device__ int d() { return 1; }",
        "pthread_t g",  # what never counts may stay
    ),
    "what is for other compilers": (
        "#ifdef __HIPCC__\nvoid f(other_t h) {\n#else\nvoid f(stream_t h) {\n#endif\n}\n__device__ int d() { return 1; }",
        "stream_t",
    ),
    "functions with the name of one for the device": (
        "__device__ int f(int n);\n__host__ int f(float x) { return host(x); }\nint f(int n) { return n; }",
        "host",
    ),
    "raw texts": ('void g() { puts(R"(\n{ " )"); }\n__device__ int d() { return 1; }', "g"),
    "separators of digits": ("void g() { int n = 1'024; if (c == '{') { n++; } }\n__device__ int d() { return 1; }", "g"),
    "calls of macros": (
        "#define K(n) __global__ void n() { }\n#define ALL(n) K(n##1) K(n##2)\nALL(k)\nint main() { return 0; }",
        "main",
    ),
    "methods of the host": (
        "class C {\npublic:\n  C(int n) : a(n), b{n} { start(); }\n  __device__ int d() { return a; }\n  void g() { }\n"
        "private:\n  int a, b;\n} c;",
        "start g",
    ),
    "declared for the device": (
        "struct S { __device__ float f(float x); };\nfloat S::f(float x) { return x; }\nvoid S::g() { }",
        "g",
    ),
    "variables": (
        "const int N(256);\n__constant__ __align__(16) float c[4]{1, 2, 3};\ndim3 block(16, 16);\nint a = f(3), b[] = {1, f(2)};",
        "",
    ),
    "names of the library": (
        "using C = std::chrono::steady_clock;\nnamespace fs = std::filesystem;\nusing F = float;\nusing std::cout;",
        "C fs cout",
    ),
    "namespaces with attributes": (
        'namespace q __attribute__((visibility("default"))) { __device__ int d() { return 1; } int g() { return 2; } }',
        "g",
    ),
}


@pytest.mark.parametrize(("source", "names"), CASES.values(), ids=CASES)
def test_what_is_for_the_host_is_told_from_what_is_not(source, names):
    of_device, _ = without_host_code(source)
    assert names or of_device == source
    assert [name for name in names.split() if re.search(rf"\b{name}\b", of_device)] == []
    for word in ("__device__", "__global__"):
        assert of_device.count(word) == source.count(word)


@pytest.mark.parametrize("cut", range(0, len(WHOLE), 97))
def test_damaged_sources_are_cut_without_an_error(cut):
    for damaged in (WHOLE[:cut], WHOLE[cut:], WHOLE[:cut] + WHOLE[cut + 1 :]):
        for refused in ((), range(1, 90)):
            of_device, _ = without_host_code(damaged, {}, refused)
            assert len(of_device) == len(damaged)
        for instance in named_instances(damaged, kernel_templates([damaged]), macros_of(damaged)):
            assert instance.startswith("scale<")


def test_headers_beside_the_source_come_without_host_code(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "a.h").write_text('#include "b.h"\ndouble seconds() { return clock(); }\n#define A 3\n')
    (tmp_path / "common" / "b.h").write_text('#include "a.h"\n__device__ float b(float x) { return x; }\n')
    text = '#include "common/a.h"\n#include <iostream>\n#include <sys/time.h>\n#include <thrust/sort.h>\n#include <math.h>\n'
    text += "#include <cuda_gl_interop.h>\n"
    (tmp_path / "toolkit").mkdir()
    (tmp_path / "toolkit" / "cuda_gl_interop.h").write_text("#include <GL/gl.h>\n")
    headers = included(text, tmp_path, [], [tmp_path / "toolkit"], asked=["sys/time.h"])
    assert headers.macros == {"A": " 3"} and headers.missing == ["sys/time.h"] and not headers.whole
    assert "sys/time.h" not in included(text, tmp_path, [], [tmp_path / "toolkit"]).texts
    assert b"seconds" not in headers.texts["common/a.h"] and b"#define A 3" in headers.texts["common/a.h"]
    assert headers.of_host.endswith("double seconds() { return clock(); }")
    assert b"__device__ float b" in headers.texts["b.h"]
    assert headers.texts["iostream"] == headers.texts["thrust/sort.h"] == headers.texts["cuda_gl_interop.h"] == b""
    assert headers.texts["math.h"] == short_headers()["math.h"]


def test_headers_of_other_folders_come_without_host_code_once_they_are_refused(tmp_path):
    """A library such as CUTLASS compiles as it is, and declares without annotations what its types need."""
    (tmp_path / "a.h").write_text("template <class T> T of(T x);\ndouble seconds() { return clock(); }\n")
    first = included('#include "a.h"\n', None, [tmp_path], [])
    assert first.whole == {"a.h"} and first.texts["a.h"] == (tmp_path / "a.h").read_bytes() and not first.of_host
    then = included('#include "a.h"\n', None, [tmp_path], [], {"a.h": ()})
    assert not then.whole and then.texts["a.h"].split() == [] and "seconds" in then.of_host


def imported(source, function, **how):
    return ws.kernels.from_cuda(source, arch="sm_90", function=function, launch=(8, 128), caches="none", **how)


@pytest.fixture
def whole(tmp_path):
    clock = "inline double now() { struct timeval t; gettimeofday(&t, 0); return t.tv_sec; }"
    (tmp_path / "book.h").write_text(f"#include <sys/time.h>\n{clock}\n")
    path = tmp_path / "whole.cu"
    path.write_text(WHOLE)
    return path


@pytest.mark.usefixtures("compiler")
def test_a_whole_program_gives_the_kernels_of_its_device_code(whole):
    """The same machine code as a source that holds nothing else, and lines of the whole source."""
    alone = """
__device__ float cube(float x) { return x * x * x; }
__global__ void limit(float *x, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = fmin(cube(x[i]), __int_as_float(0x7f800000)) * 3.14159265358979323846f;
}
"""
    found, expected = imported(whole, "limit", args={"n": 1024}), imported(alone, "limit", args={"n": 1024})
    assert [one.op for one in found.body] == [one.op for one in expected.body]
    line = 1 + WHOLE.splitlines().index("    if (i < n) x[i] = std::fmin(cube(x[i]), INFINITY) * float(M_PI);")
    assert any(one.comment.startswith(f"whole.cu:{line} ") for one in found.body)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("function", ["scale", "scale<float, 128>", "scale<double, 256>"])
def test_instances_of_templates(whole, function):
    """Those that the host launches are there; any other one by its arguments."""
    found = imported(whole, function, args={"n": 1024})
    assert found.shared_bytes_per_block == (2048 if "double" in function else 512)
    assert dict(expected_ops(found.body))["barrier"] == 1


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("function", ["scales<float, 128>", "scale<128>", "limit<float>"])
def test_an_instance_that_is_not_there_is_refused_with_the_templates_that_are(whole, function):
    with pytest.raises(CompileError, match=rf"'{function}': is no instance of a kernel's template in .*: .*\bscale\b"):
        imported(whole, function)


@pytest.mark.usefixtures("compiler")
def test_an_instance_by_its_arguments_of_a_source_for_the_device_alone():
    source = "template <int N> __global__ void fill(int *x) { for (int i = 0; i < N; i++) x[i * 1024 + threadIdx.x] = i; }"
    assert sum(times for op, times in expected_ops(imported(source, "fill<5>").body) if op == "store") == 5


@pytest.mark.usefixtures("compiler")
def test_a_fault_in_device_code_is_named_without_those_of_host_code(whole):
    whole.write_text(WHOLE.replace("square(s[threadIdx.x])", "cube_root(s[threadIdx.x])"))
    with pytest.raises(CompileError, match='identifier "cube_root" is undefined') as error:
        imported(whole, "scale")
    assert imported(whole, "limit", args={"n": 1024}).name == "limit"
    assert "host function" not in str(error.value)
    assert "headers that are not there, and were taken as empty (-I names their folder): sys/time.h" in str(error.value)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", sorted(short_headers()))
def test_each_short_header_compiles_alone_and_twice(name):
    source = f"#include <{name}>\n#include <{name}>\nint host() {{ return 1; }}\n__global__ void f(int *x) {{ *x = 1; }}"
    assert imported(source, "f").name == "f"


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "lines",
    [
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups; | cg::this_thread_block().sync();",
        "#include <cstdint>\n#include <limits> | x[0] = std::numeric_limits<int32_t>::max();",
        "#include <algorithm> | x[0] = std::min(x[1], x[2]);",
        "#include <cmath> | if (!std::isnan(x[1]) && std::isfinite(x[2])) x[0] = std::hypot(x[1], std::erf(x[2]));",
        "#include <torch/extension.h> | x[0] = -std::numeric_limits<float>::infinity();",
        "#if !defined(__linux__)\n#error other systems\n#endif | x[0] = 1;",
        "#include <cub/cub.cuh> | __shared__ typename cub::BlockReduce<float, 128>::TempStorage t; "
        "x[0] = cub::BlockReduce<float, 128>(t).Sum(x[threadIdx.x]);",
        "#include <cub/cub.cuh> | __shared__ typename cub::BlockExchange<float, 128, 2>::TempStorage t; "
        "float a[2] = {x[0], x[1]}; cub::BlockExchange<float, 128, 2>(t).StripedToBlocked(a, a); x[threadIdx.x] = a[0];",
        "#include <torch/extension.h> | std::common_type<float, int>::type a = x[0]; x[1] = a;",
        "#include <thrust/sort.h> | thrust::tuple<int, float> a(1, x[0]); thrust::pair<float, int> b(x[2], 1); "
        "x[1] = thrust::get<1>(a) + b.first;",
        "#include <mma.h> | nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c; "
        "nvcuda::wmma::fill_fragment(c, 0.f); nvcuda::wmma::store_matrix_sync(x, c, 16, nvcuda::wmma::mem_row_major);",
        "#include <cub/device/device_reduce.cuh>\n#include <cub/util_allocator.cuh>\n#include <cub/warp/warp_reduce.cuh>\n"
        "cub::CachingDeviceAllocator kept; | __shared__ typename cub::WarpReduce<float>::TempStorage t[4]; "
        "x[0] = cub::WarpReduce<float>(t[threadIdx.x / 32]).Sum(x[threadIdx.x]);",
        "#include <time.h>\n#include <unistd.h>\n#if _POSIX_TIMERS <= 0\n#error no timers\n#endif\n"
        "struct Timer { clock_t begun; double s() { return (clock() - begun) / CLOCKS_PER_SEC; } }; | Timer t; x[0] = sizeof t;",
        "#include <cuda/barrier> | __shared__ cuda::barrier<cuda::thread_scope_block> b; if (!threadIdx.x) init(&b, 128);",
    ],
    ids=["cooperative_groups", "limits", "algorithm", "cmath", "limits of a library", "linux", "cub", "cub exchange",
         "types of a library", "thrust", "mma", "cub for the host", "timers", "barrier"],
)
def test_headers_that_kernels_use(lines):
    head, _, body = lines.partition(" | ")
    source = f"{head}\n__global__ void f(float *x) {{ {body} }}\nint main() {{ f<<<1, 128>>>(nullptr); }}"
    assert imported(source, "f").block_warps == 4


REFERENCES = """#include <cstdio>
texture<float> row;
static texture<uchar4, cudaTextureType2D, cudaReadModeNormalizedFloat> image;
__global__ void f(float *x, int n)
{
    register int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = tex1Dfetch(row, i) + tex2D(image, i, 2).w;
}
__global__ void g(float *x) { x[threadIdx.x] = 1; }
int main() { image.normalized = true; cudaBindTexture(0, row, nullptr, 16); f<<<1, 128>>>(nullptr, 3); printf("done"); }
"""


@pytest.mark.usefixtures("compiler")
def test_texture_references_are_those_of_older_compilers():
    """They are taken as objects, and functions of the same file need no texture."""
    with pytest.warns(AssumptionWarning, match="source.cu: texture references, which CUDA has had no longer since version 12"):
        found = imported(REFERENCES, "f", args={"n": 1024})
    assert [one.op for one in found.body].count("texture") == 2
    assert "texture" not in [one.op for one in imported(REFERENCES, "g").body]


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("change", [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n"),
                                    lambda text: text.replace(b"done", b"d\xf6ne"), lambda text: text.decode().encode("utf-16")],
                         ids=["mark", "returns", "latin", "utf-16"])
def test_files_of_other_systems(whole, change):
    expected = imported(whole, "limit", args={"n": 1024})
    whole.write_bytes(change(whole.read_bytes()))
    assert imported(whole, "limit", args={"n": 1024}) == expected


@pytest.mark.usefixtures("compiler")
def test_headers_of_folders_that_options_name_stay(tmp_path):
    (tmp_path / "config.h").write_text("#define TILE 5\n")
    source = """#include <iostream>
    #include "config.h"
    #ifndef TILE
    #define TILE 1
    #endif
    __global__ void f(int *x) { for (int i = 0; i < TILE; i++) x[i * 1024 + threadIdx.x] = i; }
    int main() { std::cout << TILE; }"""
    found = imported(source, "f", options=[f"-I{tmp_path}"])
    assert found == imported(source, "f", options=["-I", f"{tmp_path}"])
    assert sum(times for op, times in expected_ops(found.body) if op == "store") == 5
    with pytest.warns(AssumptionWarning, match=r"source.cu: headers that are not there are taken as empty: config.h"):
        found = imported(source, "f")
    assert sum(times for op, times in expected_ops(found.body) if op == "store") == 1


@pytest.mark.usefixtures("compiler")
def test_parameters_have_their_names_behind_a_macro_of_a_header_that_marks_kernels(tmp_path):
    (tmp_path / "marks.h").write_text('#define KERNEL extern "C" __global__\n#define GLOBAL\n')
    source = '#include "marks.h"\nKERNEL void fill(GLOBAL int *x, const int count)\n{ for (int i = 0; i < count; i++) x[i] = i; }'
    assert imported(source, "fill", args={"count": 7}, options=[f"-I{tmp_path}"]).name == "fill"


@pytest.mark.usefixtures("compiler")
def test_parameters_of_templates_in_templates_have_their_names():
    kernel = "__global__ void f(int *x, P<int, P<int, int>> p, int n) { if (n > 5) *x = p.a; }"
    source = f"template <class A, class B> struct P {{ A a; B b; }};\n{kernel}"
    assert [one.op for one in imported(source, "f", args={"n": 3}).body].count("store") == 0


LIBRARY = """#include <vendor/library.h>
#include "common.h"
static library_handle_t handle;
library_status_t status[2] = {
    LIBRARY_SUCCESS,
    LIBRARY_SUCCESS};
struct Reader { FILE *file; int n; int size() const { return n; } };
class Writer : public Stream { int n; };
struct Shape { int n; };
void report(FILE *file) { fprintf(file, "%d", 1); }
__global__ void f(float *x, Shape shape) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < shape.n) x[i] += scale; }
int main() { Reader reader; f<<<1, 128>>>(nullptr, {3}); return reader.size(); }
"""


def test_declarations_that_are_refused_are_left_out_as_a_whole():
    lines = {3, 4, 7, 8, 11}  # the last one is annotated for the device, and stays
    of_device, of_host = without_host_code(LIBRARY, {}, lines)
    assert of_device.count("\n") == LIBRARY.count("\n") and len(of_device) == len(LIBRARY)
    assert not re.search(r"\b(handle|status|LIBRARY_SUCCESS|Reader|FILE|size|Writer|Stream)\b", of_device)
    assert all(re.search(rf"\b{name}\b", of_device) for name in ("Shape", "__global__", "scale"))
    assert "library_handle_t handle" in of_host and "struct Reader" in of_host
    assert without_host_code(LIBRARY, {}, {1, 2, 12}) == without_host_code(LIBRARY)  # no declaration, or left out anyway


def test_a_method_that_is_refused_leaves_its_type():
    """The variables of a type keep their places only together."""
    source = "struct A {\n  int n;\n  void f() { host(); }\n  FILE *file;\n};\n"
    assert without_host_code(source, {}, {3})[0].split() == "struct A { int n; FILE *file; };".split()
    assert without_host_code(source, {}, {4})[0].split() == []


def test_lines_are_those_of_the_compiler():
    """It does not take a form feed, as between the pages of old sources, for the end of a line."""
    assert without_host_code("\f// page 2\nFILE *file;\nint n;\n", {}, {2})[0].split("\n")[1:3] == [" " * 11, "int n;"]


@pytest.mark.parametrize(
    ("source", "lines", "left"),
    [
        ("#if V\nusing H = a;\n#else\nusing H = b;\nusing F = c;\n#endif\nint n;\n", {4}, "using H = a; using F = c; int n;"),
        ("#if V\nusing H = a;\n#else\nusing H = b;\n#endif\nFILE *f;\nint n;\n", {6}, "using H = a; using H = b; int n;"),
        (
            "#if V\nint f() {\n#elif W\nint f(int) {\n#if X\n#endif\n#else\nFILE *f() {\n#endif\n}\nint n;\n",
            {8},
            "int f() { int f(int) { int n;",
        ),
    ],
    ids=["a part that is compiled", "a part that stands before", "a head of several"],
)  # fmt: skip
def test_parts_count_in_which_lines_are_refused(source, lines, left):
    """NVRTC reads these, whatever their conditions say; the other parts stay, as it does not read them."""
    kept = re.sub("#.*", "", without_host_code(source, {}, lines)[0]).split()
    assert kept == left.split()


@pytest.mark.usefixtures("compiler")
def test_types_of_thrust_in_a_kernel(tmp_path):
    path = tmp_path / "numbers.cu"
    path.write_text(
        "#include <iostream>\n#include <thrust/complex.h>\n#include <thrust/sort.h>\n#include <thrust/tuple.h>\n"
        "using number = thrust::complex<float>;\n"
        "__global__ void k(number *x) { thrust::tuple<number, int> a(x[threadIdx.x], 2); "
        "x[threadIdx.x] = thrust::get<0>(a) * 2.f; }\n"
        'int main() { std::cout << "k"; k<<<1, 32>>>(nullptr); }\n'
    )
    assert imported(path, "k").name == "k"


@pytest.mark.usefixtures("compiler")
def test_a_source_for_the_gpus_of_two_vendors(tmp_path):
    """Which of them it is for, a macro of the source says."""
    (tmp_path / "types.h").write_text(
        "#ifdef __OTHER__\n#define OTHER 1\n#else\n#define OTHER 0\n#endif\n"
        "#if OTHER\nusing real = other_real;\n#else\nusing real = float;\n#endif\n"
        "#if OTHER\nusing stream_t = other_stream;\n#else\nusing stream_t = vendor_stream_t;\n#endif\n"
        "struct Shape { __extension__ union { int n; unsigned m; }; };\n"
    )
    path = tmp_path / "two.cu"
    path.write_text('#include "types.h"\n__global__ void k(real *x, Shape s) { if (threadIdx.x < s.m) x[threadIdx.x] = 1; }\n')
    with pytest.warns(AssumptionWarning, match="is left out: types.h:14"):
        assert imported(path, "k", args={"s.m": 64}).name == "k"


@pytest.mark.usefixtures("compiler")
def test_what_a_kernel_does_not_need_may_be_of_a_library_that_is_not_there(tmp_path):
    (tmp_path / "common.h").write_text("#pragma once\n__constant__ float scale;\nextern library_handle_t other;\n")
    path = tmp_path / "library.cu"
    path.write_text(LIBRARY)
    with pytest.warns(AssumptionWarning) as notes:
        assert imported(path, "f", args={1: 1024}).name == "f"
    said = " ".join(str(note.message) for note in notes)
    assert "library.cu: headers that are not there are taken as empty: vendor/library.h" in said
    places = ["common.h:3", *(f"library.cu:{line}" for line in (3, 4, 5, 6, 7, 8))]
    assert {place for place in places if place in said} >= {"common.h:3", "library.cu:3", "library.cu:7", "library.cu:8"}
    assert "library.cu:9" not in said and "library.cu:11" not in said


@pytest.mark.usefixtures("compiler")
def test_what_a_kernel_needs_is_refused_with_what_was_left_out_before(tmp_path):
    path = tmp_path / "library.cu"
    path.write_text(LIBRARY.replace("struct Shape { int n; };", "struct Shape { integer n; };"))
    with pytest.raises(CompileError, match=r'library.cu\(11\): error: identifier "Shape" is undefined') as error:
        imported(path, "f", args={1: 1024})
    assert 'refused before, and left out: ' in str(error.value)
    assert 'library.cu(9): error: identifier "integer" is undefined' in str(error.value)


@pytest.mark.usefixtures("compiler")
def test_headers_that_no_compiler_asks_for_are_not_named(tmp_path):
    """They stand under conditions that do not hold."""
    path = tmp_path / "two.cu"
    path.write_text(
        '#ifdef USE_OTHER\n#include "other/runtime.h"\n#else\n#include "mine.h"\n#endif\nint host() { return std::rand(); }\n'
        "__global__ void f(float *x) { *x = 1; }\n"
    )
    with pytest.warns(AssumptionWarning) as notes:
        assert imported(path, "f").name == "f"
    assert [str(note.message) for note in notes] == ["two.cu: headers that are not there are taken as empty: mine.h"]


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("struct Shape { FILE *file; };\n__global__ void f(Shape s) {}", "refused before, and left out: part.cu"),
        ("int n() { return rand(); }\n__global__ void f(int *x) { *x = n(); }", "named in what seems .*: n; __device__ marks"),
        ('#include "curand_kernel.h"\n__global__ void f(curandState *x) {}', "curand_kernel.h; .* pip install nvidia-curand"),
        ("__device__ int g(int);\n__global__ void f(int *x) { *x = g(*x); }", "in another file, which .* must include: g"),
        ("__global__ void f(float *x) { x[0] = SCALE; }", "all.cu includes part.cu: import that file"),
        ("int n = FOUR;", r"there is no kernel \(__global__\) in part.cu"),
    ],
    ids=["a class", "a function", "random numbers", "another file", "a part of a file", "no kernel"],
)
@pytest.mark.usefixtures("compiler")
def test_a_refusal_says_what_there_is_to_do(tmp_path, source, hint):
    (tmp_path / "all.cu").write_text('#define SCALE 2\n#include "part.cu"\n')
    (tmp_path / "part.cu").write_text(source)
    with pytest.raises(CompileError, match=rf"(?s)\n.*{hint}"):
        imported(tmp_path / "part.cu", "f")


@pytest.mark.usefixtures("compiler")
def test_constants_of_single_files_are_computed_from_others():
    """As nvcc computes them: C++ takes a constant number with a point for none in an expression."""
    source = """const float width = 3.0f;
static const double scale = 1.0 / width;
const float root = sqrt(2.0) * scale;
__global__ void f(float *x) { const float y = x[0]; x[threadIdx.x] = y * (float)scale NEEDED; }
int main() { return printf("%f", scale); }"""
    with pytest.warns(AssumptionWarning, match="is left out: source.cu:3"):
        kernel = imported(source.replace("NEEDED", ""), "f")
    assert [one.op for one in kernel.body].count("load") == 1  # no constant is loaded
    with pytest.raises(CompileError, match=r"write their values, or make them macros \(-D\)\nNVRTC compiles"):
        imported(source.replace("NEEDED", "* root"), "f")


@pytest.mark.usefixtures("compiler")
def test_integers_of_the_library_are_those_of_device_code():
    """Of members, too, and of names for types; other variables of the library are left out."""
    source = """#include <cstdint>
    struct Pixel { std::uint8_t b; std::size_t n; __host__ __device__ void set(int v) { b = v; n = v; } };
    class Hash { public: using key = std::uint32_t; __device__ static key of(key x) { return x * 0x7ed55d16; } };
    std::vector<int> table;
    __global__ void f(Pixel *p) { p[threadIdx.x].set(Hash::of(threadIdx.x)); }"""
    assert imported(source, "f").name == "f"


@pytest.mark.usefixtures("compiler")
def test_a_header_may_be_included_by_two_names(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.h").write_text("#pragma once\n__device__ float twice(float x) { return x + x; }\n")
    (tmp_path / "parts" / "b.h").write_text('#include "a.h"\ndouble now() { return clock(); }\n')
    source = '#include "parts/a.h"\n#include "parts/b.h"\n__global__ void f(float *x) { *x = twice(*x); }\nint main() { now(); }'
    path = tmp_path / "two.cu"
    path.write_text(source)
    assert imported(path, "f").name == "f"


@pytest.mark.usefixtures("compiler")
def test_headers_of_libraries_bring_the_types_that_they_include():
    head = "#include <cublas_v2.h>\n#include <type_traits>\ncublasHandle_t handle;\n"
    kernel = "__global__ void f(__half *x, std::is_same<int, uint> same) { *x = same ? *x : *x + *x; }"
    with pytest.warns(AssumptionWarning, match=r"source.cu: what NVRTC refuses, .* is left out: source.cu:3"):
        assert imported(head + kernel, "f").name == "f"


@pytest.mark.usefixtures("compiler")
def test_a_block_has_its_rank_in_a_cluster_that_the_kernel_declares(tmp_path):
    path = tmp_path / "ranks.cu"
    path.write_text("""
extern "C" __global__ void __cluster_dims__(2, 2, 1) f(float *x, int n) {
    __shared__ float s[128];
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float value = s[127 - threadIdx.x];
    for (int i = 0; i < n; i++)
        if (rank == 3) x[i * 4096 + threadIdx.x] = value;
}""")
    kernel = ws.kernels.from_cuda(path, arch="sm_90", launch=((4, 2), 128), args={"n": 10}, caches="none")
    assert sum(times for op, times in expected_ops(kernel.body) if op == "store") == pytest.approx(10 / 4)


@pytest.mark.usefixtures("compiler")
@pytest.mark.skipif(sys.platform != "linux", reason="nvcc has integers of 128 bits on Linux only")
@pytest.mark.filterwarnings("error")
def test_integers_of_128_bits_are_there_as_with_nvcc():
    source = "__global__ void f(size_t *x, size_t m) { x[threadIdx.x] = (unsigned __int128)m * *x >> 64; }"
    assert imported(source, "f").name == "f"
