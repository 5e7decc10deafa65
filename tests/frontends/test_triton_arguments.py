"""What Triton's compiler learns of arguments; these tests need no Triton."""

from types import SimpleNamespace

from warpsim.frontends.sources.triton_functions import specialized


def test_ones_are_constants_and_multiples_of_16_are_known() -> None:
    names = ["x", "block", "n", "stride", "m", "seed", "p", "on"]
    parameters = [SimpleNamespace(name=name, do_not_specialize=False, do_not_specialize_on_alignment=False) for name in names]
    parameters[5].do_not_specialize = True
    kinds = ["*fp32", "constexpr", "i32", "i64", "u32", "i32", "fp32", "i1"]
    values = {"n": 48, "stride": 1, "m": 24, "seed": 16, "p": 16.0, "on": 1}
    found = specialized(SimpleNamespace(params=parameters), dict(zip(names, kinds, strict=True)), values)
    assert found.ones == ["stride"]
    assert found.attributes == {(0,): [["tt.divisibility", 16]], (2,): [["tt.divisibility", 16]]}
    assert list(specialized(SimpleNamespace(params=parameters[:1]), {"x": "*fp32"}, {"x": 0x1008}).attributes) == []
    parameters[0].do_not_specialize_on_alignment = True
    assert list(specialized(SimpleNamespace(params=parameters), {"x": "*fp32"}, {}).attributes) == []
