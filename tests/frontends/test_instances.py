"""Instances of templates of kernels: which ones host code names, and with which constants."""

from contextlib import suppress

import pytest

import warpsim as ws
from warpsim.frontends.errors import AssumptionWarning, CompileError, FrontEndError
from warpsim.frontends.sources import cuda_source
from warpsim.frontends.sources.host_code import macros_of
from warpsim.frontends.sources.instances import kernel_templates, named_instances

NAMES = {name: name for name in "abcdk"}


def instances(host_code, kernels=NAMES):
    return named_instances(host_code, kernels, macros_of(host_code))


def test_instances_are_those_that_the_host_names():
    host_code = "a<1><<<2, 3>>>(); a < 1 ><<<2, 3>>>(); b<float,\n  x><<<1, 1>>>(); c<<<1, 1>>>(); auto *p = d<f(2)>; e<3>();"
    assert instances(host_code) == ["a<1>", "b<float, x>", "d<f(2)>"]
    assert instances("k<P<int, int>><<<1, 1>>>(); // k<2><<<1, 1>>>();\n/* k<3><<<1, 1>>>(); */") == ["k<P<int, int>>"]
    assert instances("if (a < 1) { i = c < 4; }") == []


@pytest.mark.parametrize(
    ("defined", "instance"),
    [
        ("constexpr int B = 128;", "k<128>"),
        ("constexpr unsigned int A{4U}; std::size_t constexpr B{A * 8U}; int n{B};", "k<(4U * 8U)>"),
        ("constexpr int B{(8 *\n  4)};", "k<((8 * 4))>"),
        ("int B{f()}; constexpr int C{2};", None),
        ("const int A = 2, B = 64 * A;", "k<(64 * 2)>"),
        ("constexpr int B = A > 2 ? f(A, 3) : 8;", "k<(A > 2 ? f(A, 3) : 8)>"),
        ("using B = float;", "k<float>"),
        ("typedef unsigned int B;", "k<unsigned int>"),
        ("using B = P<int, 3>;", "k<P<int, 3>>"),
        ("constexpr int B = 1; { constexpr int B = 2; }", "k<2>"),
        ("int B; cin >> B;", None),
        ("int B = B;", None),
        ("", "k<B>"),
    ],
)
def test_names_of_an_instance_that_the_host_defines(defined, instance):
    """Others may be constants beside it; NVRTC knows."""
    found = instances(f"void other() {{ constexpr int B = 9; }} int main() {{ {defined} k<B><<<1, 1>>>(); k<7><<<1, 1>>>(); }}")
    assert found == ([instance] if instance else []) + ["k<7>"]


def test_instances_by_the_template_of_a_function_of_the_host():
    host_code = """
    template <typename T, int N, bool CAUSAL = false> void launch(T *x) {
        constexpr int TILE = N / 2;
        auto kernel = k<T, TILE, CAUSAL>;
        kernel<<<1, 32>>>(x);
    }
    template <int N> void both() { launch<float, N>(x); launch<half, 2 * N, true>(x); }
    void never_called_as_such() { launch(x); }
    int main() { both<64>(); constexpr int M = 128; launch<int, M>(x); }
    """
    expected = ["k<float, (64 / 2), false>", "k<half, ((2 * 64) / 2), true>", "k<int, (128 / 2), false>"]
    assert instances(host_code) == expected
    assert instances("template <int N> void f() { k<N>(); f<N + 1>(); }") == []  # it calls itself, and nobody else does


@pytest.mark.parametrize(
    "host_code",
    [
        "".join(f"template <int N> void f{i}() {{ {''.join(f'f{j}<N>(); ' for j in range(20))} k<N>(); }}\n" for i in range(20)),
        "void f() { " + "".join(f"const int a{i + 1} = {' + '.join([f'a{i}'] * 40)};" for i in range(9)) + " k<a9>(); }",
        "#define A(x) B(x) B(x) B(x) B(x)\n#define B(x) A(x x) A(x)\nvoid f() { A(k<1>) }",
    ],
    ids=["templates that call each other", "constants that grow", "macros that grow"],
)
def test_host_code_without_end_is_given_up(host_code):
    assert len(instances(host_code)) <= 64


def test_instances_in_macros():
    host_code = r"""
#define LAUNCH(N) k<(N)><<<1, N>>>(x);
#define DISPATCH(n) \
  switch (n) { \
    case 1: LAUNCH(64) break; \
    case 2: LAUNCH(128) break; \
  }
#define SWITCH(condition, NAME, ...) [&] { \
    if (condition) { constexpr bool NAME = true; return __VA_ARGS__(); } \
    else { constexpr bool NAME = false; return __VA_ARGS__(); } }()
#define NAMED(name, type) void run_##name(type *x) { name<type, 4><<<1, 1>>>(x); }
NAMED(a, float)
NAMED(b, half)
void f(int n) { DISPATCH(n) SWITCH(n > 3, BIG, [&] { c<BIG, int><<<1, 1>>>(x); }); }
"""
    assert instances(host_code) == ["a<float, 4>", "b<half, 4>", "c<true, int>", "c<false, int>", "k<64>", "k<128>"]
    assert instances("#define A(x) A(x) A(x) k<x><<<1, 1>>>();\nvoid f() { A(1) }")[:1] == ["k<1>"]  # no macro expands itself


def test_kernels_that_are_templates():
    source = """
    __global__ void no(int *x) {}
    namespace outer { namespace inner {
    template <int N> __global__ void __launch_bounds__(N * 32) bounded(float *x) { x[0] = N; }
    } template <class T> struct S {}; // template <int N> __global__ void comment();
    template <> __global__ void special<4>(float *x) {}
    }
    template <typename T>
    static __global__ void plain(T *x);
    """
    expected = {"bounded": "outer::inner::bounded", "special": "outer::special", "plain": "plain"}
    assert kernel_templates([source, "", "int main() {}"]) == expected


def test_templates_have_their_names_behind_a_macro_with_arguments():
    source = "template <class T> __global__ void BOUNDS(128, (2)) f(T *x) { g(x); }"
    assert kernel_templates([source]) == {"f": "f"}


def imported(source, function=None, **how):
    return ws.kernels.from_cuda(source, arch="sm_90", function=function, launch=(8, 128), caches="none", **how)


@pytest.mark.usefixtures("compiler")
def test_instances_with_arguments_that_the_host_does_not_say_are_left_out():
    source = """template <int N> __global__ void f(int *x) { x[N] = N; }
    template <int N> __global__ void g(int *x) { x[N] = N; }
    template <int N> void launch(int *x) { f<N><<<1, 32>>>(x); }
    int main(int argc, char **argv) { int n = argc; f<n><<<1, 1>>>(nullptr); g < 4 ><<<1, 32>>>(nullptr); }"""
    assert imported(source, "g").name == "g"
    with pytest.raises(FrontEndError, match=r"source.cu: holds no kernel; .*; templates there: f<int N>, g<int N>$"):
        imported(source, "f")


@pytest.mark.usefixtures("compiler")
def test_instances_of_types_that_are_not_there_leave_the_others():
    """Those of a library that is missing, whose other arguments are macros, which NVRTC expands."""
    source = """#define WIDTH 4
    template <typename T, int N> __global__ void f(T *x) { x[N] = N; }
    int main() { library y; f<at::Half, WIDTH><<<1, 32>>>(nullptr); f<float, WIDTH><<<1, 32>>>(nullptr); }"""
    assert imported(source, "f") == imported(source, "f<float, 4>")


@pytest.mark.usefixtures("compiler")
def test_a_kernel_of_a_namespace_whose_arguments_are_constants_of_the_function_that_launches_it():
    source = """namespace demo {
    template <int TILE, typename T> __global__ void fill(T *x) { for (int i = 0; i < TILE; i++) x[i * 1024 + threadIdx.x] = i; }
    template <int N> struct Size { static constexpr int value = N; };
    }
    void run(float *x) {
        using namespace demo;
        constexpr int WARPS = 3;
        auto kernel = fill<Size<WARPS>::value * 2, float>;
        kernel<<<1, 32>>>(x);
    }"""
    kernel = imported(source)
    assert kernel.name == "fill" and sum(one.op == "store" for one in kernel.body) == 6
    assert imported(source, "fill<6, float>") == kernel


@pytest.mark.usefixtures("compiler")
def test_several_instances_are_named_as_one_can_ask_for_them():
    source = """template <int N, bool UP>
    __global__ void fill(int *x) { for (int i = 0; i < N; i++) x[i * 1024 + threadIdx.x] = UP; }
    template <int N> void launch(bool up) { if (up) fill<N, true><<<1, 32>>>(x); else fill<N / 2, false><<<1, 32>>>(x); }
    void main() { launch<4>(true); launch<16>(false); }"""
    with pytest.raises(FrontEndError, match=r"name one of: fill<16, true>, fill<2, false>, fill<4, true>, fill<8, false>$"):
        imported(source, "fill")
    assert sum(one.op == "store" for one in imported(source, "fill<8,false>").body) == 8


@pytest.mark.usefixtures("compiler")
def test_bindings_of_a_library_that_is_not_there_are_left_out():
    """As in extensions of PyTorch: macros define functions of the host at the level of the file."""
    macros = "\n".join(f"#define UNUSED_{number}(x) \\\n  something_long_{number}(x);" for number in range(300))
    source = f"""#include <torch/extension.h>
template <int N> __global__ void fill(float *x) {{ for (int i = 0; i < N; i++) x[i * 1024 + threadIdx.x] = std::max(i, 3); }}
{macros}
#define BINDING(name, type, n) \\
  void bind_##name(torch::Tensor x) {{ constexpr int count = n; fill<count><<<1, 32>>>((type *)x.data_ptr()); }}
void direct(torch::Tensor x) {{ fill<2><<<1, 32>>>(x.data_ptr()); }}
BINDING(f32, float, 5)
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("fill", &bind_f32); }}
"""
    with pytest.warns(AssumptionWarning, match="torch/extension.h"), pytest.warns(AssumptionWarning, match="source.cu:606"):
        kernel = imported(source, "fill<5>")
    assert sum(one.op == "store" for one in kernel.body) == 5


@pytest.mark.usefixtures("compiler")
def test_bindings_by_one_macro_are_left_out_together(monkeypatch):
    """Each compilation names one. The instances that they name are there all the same."""
    asked, compile_instances = [], cuda_source.compile_instances
    monkeypatch.setattr(cuda_source, "compile_instances", lambda *text, **how: asked.append(1) or compile_instances(*text, **how))
    types = "\n".join(f"BINDING({name})" for name in ("int", "short", "float", "double"))
    source = f"""template <class T> __global__ void fill(T *x) {{ x[threadIdx.x] = 6; }}
#define CALL(T) fill<T><<<1, 32>>>(x.data<T>());
#define BINDING(T) void bind_##T(library::Tensor x) {{ CALL(T) }}
{types}
"""
    with pytest.warns(AssumptionWarning, match="is left out: source.cu:4, source.cu:5, source.cu:6, source.cu:7$"):
        assert imported(source, "fill<float>").name == "fill"
    assert len(asked) == 3
    with pytest.raises(FrontEndError, match=r"name one of: fill<double>, fill<float>, fill<int>, fill<short>$"):
        imported(source, "fill")


@pytest.mark.usefixtures("compiler")
def test_kernels_of_headers_have_the_names_of_their_parameters(tmp_path):
    """And the instances that host code beside them names."""
    (tmp_path / "kernel.cuh").write_text(
        "template <int N> __global__ void fill(int *x, int count) { for (int i = 0; i < count; i++) x[i] = N; }\n"
        "void run(int *x) { fill<3><<<1, 32>>>(x, 5); std::cout << x; }\n"
    )
    path = tmp_path / "main.cu"
    path.write_text('#include <iostream>\n#include "kernel.cuh"\nint main() { run(nullptr); std::cout << 1; }\n')
    assert imported(path, "fill", args={"count": 7}).name == "fill"


@pytest.mark.usefixtures("compiler")
def test_types_that_headers_of_other_libraries_bring():
    source = """#include <ATen/ATen.h>
    template <typename T> __global__ void fill(T *x, half *y) {
        if constexpr (std::is_same_v<T, __nv_bfloat16>) y[threadIdx.x] = __float2half(1.0f);
        __asm__ __volatile__("bar.sync 1, 128;");
        x[threadIdx.x] = T(0.0f);
    }
    void run(at::Tensor x) { fill<float><<<1, 32>>>(x.data_ptr(), nullptr); }
    """
    for name, stores in (("float", 1), ("__nv_bfloat16", 2)):
        assert sum(one.op == "store" for one in imported(source, f"fill<{name}>").body) == stores


@pytest.mark.usefixtures("compiler")
def test_types_of_the_library_of_the_host_that_structures_name():
    source = """struct Pair {
        float x, y;
        friend std::ostream& operator<<(std::ostream& to, const Pair& it) { return to << it.x << ", " << it.y; }
    };
    std::istream& operator>>(std::istream& from, Pair& it);
    __global__ void fill(Pair *pairs) {
        using Raw = std::aligned_storage<8, 8>::type;
        auto both = [](float x) -> std::tuple<float, float> { return {x, std::get<0>(std::make_tuple(2 * x))}; };
        auto [x, y] = both(threadIdx.x);
        Pair it = {x, y};
        reinterpret_cast<Raw *>(pairs)[threadIdx.x] = reinterpret_cast<Raw &>(it);
    }
    int main() { Pair *it; cudaMalloc(&it, 256); fill<<<1, 32>>>(it); }"""
    assert [one.access.bytes_per_thread for one in imported(source).body if one.op == "store"] == [8]


@pytest.mark.usefixtures("compiler")
def test_a_type_that_a_macro_of_a_missing_library_chooses_is_asked_for():
    source = """#include <torch/extension.h>
    template <typename T, int N> __global__ void relu(T *x) { for (int i = 0; i < N; i++) if (x[i] < T(0)) x[i] = T(0); }
    void run(torch::Tensor x) { DISPATCH(x.type(), [&] { relu<scalar_t, 2><<<1, 32>>>(x.data_ptr<scalar_t>()); }); }
    """
    message = r"templates there: relu<typename T, int N>; host code names relu<scalar_t, 2>, not all with constants$"
    with pytest.raises(FrontEndError, match=message):
        imported(source)
    assert imported(source, "relu<float, 2>").name == "relu"


LAMBDA = """template <typename F> __global__ void apply(F f, int n) { if (threadIdx.x < n) f(threadIdx.x); }
struct Fill { float *x; __device__ void operator()(int i) const { x[i] = 1; } };
int main() { float *x = nullptr; apply<<<4, 32>>>([=] __device__ (int i) { x[i] = i; }, 100); }"""


@pytest.mark.usefixtures("compiler")
def test_a_lambda_has_no_name_by_which_an_instance_could_be_asked_for():
    why = "no instance for a lambda can be asked for, as the type of a lambda has no name: pass a functor with a name"
    for function in (None, "apply"):
        with pytest.raises(FrontEndError, match=rf"holds no kernel; .*; {why} .*; templates there: apply<typename F>$"):
            imported(LAMBDA, function)
    with pytest.raises(FrontEndError, match=rf"function = 'apply': is not in source.cu; functions there: other; {why}"):
        imported(LAMBDA + "\n__global__ void other(float *x) { *x = 1; }", "apply")
    assert imported(LAMBDA, "apply<Fill>", args={"n": 100}).name == "apply"
    with pytest.raises(FrontEndError, match=r"such as 'f<256>'; templates there: apply<typename F>$"):
        imported(LAMBDA.replace("[=] __device__ (int i) { x[i] = i; }", "Fill{x}"))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("function", "compiled"), [("plain", 0), ("space::plain", 0), ("space::fill", 2), (None, 3)])
def test_only_instances_of_the_kernel_that_is_wanted_are_compiled(monkeypatch, function, compiled):
    """A file may name dozens, each of which takes a second."""
    asked, compile_instances = [], cuda_source.compile_instances
    monkeypatch.setattr(
        cuda_source, "compile_instances", lambda *text, **how: asked.append(how["instances"]) or compile_instances(*text, **how)
    )
    source = """namespace space {
    __global__ void plain(int *x) { *x = 1; }
    template <int N> __global__ void fill(int *x) { x[N] = N; }
    template <int N> __global__ void other(int *x) { x[N] = N; } }
    int main() { host x; space::fill<4><<<1, 32>>>(x); space::fill<5><<<1, 32>>>(x); space::other<4><<<1, 32>>>(x); }"""
    with suppress(FrontEndError):
        imported(source, function)
    assert len(asked[-1]) == compiled


@pytest.mark.usefixtures("compiler")
def test_an_instance_that_can_be_asked_for_has_all_arguments():
    """An example has a type, a number and a truth value; what else a template takes is named as the source names it."""
    source = """enum Mode { A, B };
    template <typename T, const int N, bool UP, Mode mode = A> __global__ void f(T *x) { x[N] = T(UP + mode); }
    __global__ void g(float *x) { *x = 1; }"""
    with pytest.raises(FrontEndError, match=r"such as 'f<float, 128, true, mode>' of f<typename T, .*, Mode mode = A>;"):
        imported(source, "f")
    assert imported(source, "f<float, 128, true, A>").name == "f"
    with pytest.raises(CompileError, match=r"is no instance .*; templates there: f<typename T, const int N, .*>\n"):
        imported(source, "f<float>")


@pytest.mark.usefixtures("compiler")
def test_a_wrong_argument_of_a_template_is_named():
    source = "template <typename T> __global__ void fill(T *x) { *x = 1; }\nint main() { fill<float><<<1, 1>>>(nullptr); }"
    with pytest.raises(CompileError, match='identifier "floaty" is undefined'):
        imported(source, "fill<floaty>")


@pytest.mark.usefixtures("compiler")
def test_a_template_of_which_the_host_deduces_the_arguments_is_named():
    source = """template <class T> __global__ void sum(float *out, const T *in) { atomicAdd(out, (float)in[threadIdx.x]); }
    __global__ void clear(float *out) { out[threadIdx.x] = 0; }
    void run(float *out, const float *in) { clear<<<1, 32>>>(out); sum<<<1, 32>>>(out, in); }"""
    with pytest.raises(FrontEndError, match=r"'sum': is a template, .* 'sum<float>' of sum<class T>; functions there: clear$"):
        imported(source, "sum")
    with pytest.warns(AssumptionWarning, match=r"clear is the only kernel, apart from templates .* with constants: sum$"):
        assert imported(source).name == "clear"
    with pytest.raises(FrontEndError, match=r"args\['n'\]: sum has no such parameter"):
        imported(source, "sum<float>", args={"n": 1})
    several = f"{source}\n__global__ void last(float *out) {{ *out = 0; }}"
    with pytest.raises(FrontEndError, match=r"several; name one of: clear, last; or an instance of a template: sum<class T>$"):
        imported(several)
