"""The operations whose latency and interval are measured, and what their machine code must look like.

The CUDA source of each is in cuda/operations.cuh, under OP_ and its name.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """An operation of `chain.cu`.

    Attributes:
        name: as in cuda/operations.cuh.
        text: what one step does.
        step: opcode (a regular expression, matched from its beginning) -> how often it is on the dependence path of a step.
        minus: operations whose latency is subtracted from that of a step, to leave the latency of the first opcode.
        share: the number of instructions of equal kind among which the rest is divided.
        ilp: numbers of independent chains in a warp for which throughput is measured.
        saturate: whether throughput is measured; otherwise only the latency of a single warp.
    """

    name: str
    text: str
    step: dict[str, int]
    minus: tuple[str, ...] = ()
    share: int = 1
    ilp: tuple[int, ...] = (1, 2, 3, 4)
    saturate: bool = True


_FIVE = (1, 2, 3, 4, 5)

OPERATIONS = {
    op.name: op
    for op in (
        Operation("fadd", "single-precision add", {"FADD": 1}),
        Operation("fmul", "single-precision multiply", {"FMUL": 1}),
        Operation("ffma", "single-precision fused multiply-add", {"FFMA": 1}, ilp=_FIVE),
        Operation("iadd3", "integer three-input add", {"IADD3": 1}),
        Operation("imad", "integer multiply-add, low half", {"IMAD$": 1}),
        Operation("imad_hi", "integer multiply, high half", {r"IMAD\.HI": 1}),
        Operation("imad_wide", "integer multiply, 64-bit result", {r"IMAD\.WIDE": 1, "LOP3": 1}, minus=("lop3",)),
        Operation("lop3", "three-input logic", {"LOP3": 1}),
        Operation("shf", "funnel shift", {"SHF": 1}),
        Operation("prmt", "byte permutation", {"PRMT": 1}),
        Operation("dp4a", "dot product of four bytes", {"IDP": 1}),
        Operation("popc", "population count", {"POPC": 1}),
        Operation("dadd", "double-precision add", {"DADD": 1}),
        Operation("dfma", "double-precision fused multiply-add", {"DFMA": 1}, ilp=_FIVE),
        Operation("hfma2", "half-precision fused multiply-add, two a lane", {r"HFMA2": 1}),
        Operation("rcp", "special function: reciprocal, consumed by an add", {r"MUFU\.RCP": 1, "FADD": 1}, minus=("fadd",)),
        Operation("rsqrt", "special function: reciprocal square root", {r"MUFU\.RSQ": 1}),
        Operation("sqrt", "special function: square root", {r"MUFU\.SQRT": 1}),
        Operation("ex2", "special function: power of two", {r"MUFU\.EX2": 1}),
        Operation("sin", "special function: sine, after a multiply", {r"MUFU\.SIN": 1, "FMUL": 1}, minus=("fmul",)),
        Operation("cvt_f32_s32", "float to integer and back, each", {"F2I": 1, "I2F": 1}, share=2),
        Operation("cvt_f32_f64", "float to double and back, each", {r"F2F": 2}, share=2),
        Operation("shfl", "shuffle", {"SHFL": 1}),
        Operation("lds", "shared memory load, 32 bits", {r"LDS(\.U)?$": 1}),
        Operation("lds_64", "shared memory load, 64 bits", {r"LDS(\.U)?\.64": 1}),
        Operation("lds_128", "shared memory load, 128 bits", {r"LDS(\.U)?\.128": 1}),
        Operation("atoms", "atomic add in shared memory", {r"ATOMS": 1}),
        Operation("ldg", "global load, 32 bits, hit in L1", {r"LDG\.E(\.SYS)?$": 1}),
        Operation("ldg_64", "global load, 64 bits, hit in L1", {r"LDG\.E\.64": 1}),
        Operation("ldc", "constant load, index by thread, after a shift", {r"LDC": 1, r"SHF|IMAD\.SHL": 1}, minus=("shf",)),
        Operation("hmma", "matrix multiply-accumulate 16x8x16 (16x8x8 on 7.5), half to single", {"HMMA": 1}),
    )
}
"""Every operation by its name."""

CONFLICT_WAYS = (2, 4, 8, 16, 32)
"""Numbers of lanes that share a bank of shared memory, for which `lds` is measured as well."""

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
"""Architectures for which the tests compile every kernel and read its machine code."""
