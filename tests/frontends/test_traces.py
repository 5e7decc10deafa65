"""Launches from traces: what is read of them, what they become, and what is refused."""

import json
import lzma
import random
import re
import tracemalloc
import warnings

import numpy as np
import pytest

import warpsim as ws
from tests.support.damage import damaged
from tests.support.nvbit_traces import copying_warp, trace_text, write_list
from warpsim import cli
from warpsim.frontends.errors import AssumptionWarning, FrontEndError
from warpsim.frontends.listings import folder
from warpsim.frontends.machine_code.sass_text import parse_listing
from warpsim.frontends.traces import compiled as traces
from warpsim.frontends.traces import kernel as traced_kernel
from warpsim.frontends.traces.compiled import compile_warps, compiled_trace
from warpsim.frontends.traces.trace_file import TraceReader, opened
from warpsim.kernels.traversal import walk


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(traces, "cache_folder", lambda: tmp_path / "cache")


def loops_of(block, warp):
    """Blocks take turns at one trip and at three."""
    return 1 + 2 * (block % 2)


def copy_trace(blocks=6, warps=4, trips=loops_of):
    rows = [[copying_warp((b * warps + w) * 4096, trips(b, w)) for w in range(warps)] for b in range(blocks)]
    return trace_text(rows, grid=blocks, block=32 * warps)


def read(path):
    with opened(path) as file:
        return compile_warps(TraceReader(path, file))


def ops(statements):
    return [one.op for _, one in walk(tuple(statements)) if hasattr(one, "op")]


def test_a_trace_is_what_its_warps_executed(tmp_path):
    (tmp_path / "kernel-1.traceg").write_text(copy_trace())
    trace = read(tmp_path / "kernel-1.traceg")
    assert (trace.head.name, trace.head.arch, trace.head.registers) == ("_Z4copyPfS_", 80, 16)
    assert (trace.head.geometry.grid, trace.head.geometry.block) == ((6, 1, 1), (128, 1, 1))
    assert [one.opcode for one in trace.instructions][:4] == ["S2R", "IMAD.WIDE", "LDG.E", "FADD"]
    assert [len(path) for path in trace.paths] == [8, 18]
    assert trace.path_of_warp.tolist() == [0, 0, 0, 0, 1, 1, 1, 1] * 3
    loads = trace.tallies[2]
    assert (loads.warps, loads.sectors, loads.lines) == (48, 4 * 48, 48)  # whatever the form of the addresses
    assert np.array_equal(loads.pattern(), 4 * np.arange(32))
    assert len(trace.rows.place) == 2 * 48 and trace.rows.warp_first[[0, 4, 8]].tolist() == [0, 8, 32]


def test_uniform_registers_and_what_follows_the_immediate_are_read(tmp_path):
    """A tracer of version 6 names uniform registers, and ends lines with a second immediate and `NoVal`."""
    rows = [
        "0000 ffffffff 1 R3 S2R 0 0 0 0 NoVal", "0010 ffffffff 1 UR4 S2UR 0 0 0 0 NoVal",
        "0020 ffffffff 1 R2 IMAD 3 R255 UR4 R3 0 0 0 NoVal", "0030 ffffffff 1 R5 LDG.E 1 R2 4 1 0x7f7b00000000 4 0 0 NoVal",
        "0040 ffffffff 0 EXIT 0 0 0 0 NoVal",
    ]  # fmt: skip
    text = trace_text([[rows]], grid=1, block=32).replace("tracer version = 4", "tracer version = 6")
    kernel = ws.kernels.from_trace(write_list(tmp_path, text))
    assert ops(kernel.body) == ["smem", "smem", "imad", "load"]
    assert kernel.body[2].src == ("v0", "v1")


def test_different_paths_become_entries(tmp_path):
    kernel = ws.kernels.from_trace(write_list(tmp_path, copy_trace()))
    assert (kernel.name, kernel.block_warps, kernel.registers_per_thread) == ("copy", 4, 16)
    assert kernel.entry_of_warp == (1, 1, 1, 1, 0, 0, 0, 0) * 3
    (_, long), (_, short) = kernel.paths()
    assert long[2].trips == 3 and ops(long[2:3]) == ["load", "alu", "store", "int", "branch"]
    assert ops(short) == ["smem", "imad", *ops(long[2:3])]
    assert long[0] == short[0] and long[2].body[0] is short[2]
    access = short[2].access
    assert (access.pattern, access.l1_hit, access.l2_hit) == ("coalesced", 0, 0)
    assert set(short[2].src) == {"v1", "v2", "v5"}  # its address, and what it overwrites


def test_one_path_needs_no_entry(tmp_path):
    kernel = ws.kernels.from_trace(write_list(tmp_path, copy_trace(trips=lambda block, warp: 2)))
    assert kernel.entries == () and kernel.body[2].trips == 2


def test_a_pattern_of_the_warps_of_a_block_is_kept_once(tmp_path):
    kernel = ws.kernels.from_trace(write_list(tmp_path, copy_trace(trips=lambda block, warp: 1 + warp)))
    assert len(kernel.entry_of_warp) == 4 and len(kernel.entries) == 4


def test_a_traced_launch_runs_alike_on_the_engine_and_the_reference(tmp_path):
    kernel = ws.kernels.from_trace(write_list(tmp_path, copy_trace()))
    launch = ws.Launch(blocks=6, block_warps=4)
    runs = [ws.simulate("a100", kernel, launch=launch, sms=1, replicates=1, engine=name) for name in ("compiled", "reference")]
    assert runs[0].equals(runs[1])
    counts = runs[0].instructions.isel(replicate=0).to_series()
    assert counts["load"] == counts["store"] == 6 * 4 * 2 and counts["exit"] == 24


def test_accesses_hit_what_other_warps_have_read(tmp_path):
    same = [[copying_warp(1 << 20, 2) for _ in range(4)] for _ in range(3)]
    kernel = ws.kernels.from_trace(write_list(tmp_path, trace_text(same, grid=3, block=128)))
    load = next(one for _, one in walk(kernel.body) if getattr(one, "op", "") == "load")
    # Three blocks on three SMs; the first warp of each reads two lines, the first of all from memory.
    assert (load.access.l1_hit, load.access.l2_hit) == (0.75, pytest.approx(2 / 3, abs=1e-4))
    without = ws.kernels.from_trace(tmp_path / "kernelslist.g", caches="none")
    assert all(one.access.l1_hit == 0 for _, one in walk(without.body) if getattr(one, "op", "") == "load")


def vector_add_trace(blocks=2):
    """A trace of the listing of the vector addition: all its instructions up to the last exit, by every warp."""
    function = next(one for one in parse_listing((folder() / "vector.sm_80.sass").read_text()) if "vector_add" in one.name)
    rows = []
    for one in function.code:
        address = f"4 1 {0x7F0000000000 + 4096 * one.address:#x} 4" if one.base in ("LDG", "STG") else "0"
        rows.append(f"{one.address:04x} ffffffff 1 R1 {one.opcode} 1 R2 {address}")
        if one.base == "EXIT" and not one.guard:
            break
    return function, trace_text([[rows] * 8] * blocks, grid=blocks, block=256, name=function.name)


def test_a_trace_is_joined_with_its_binary_by_address(tmp_path):
    function, text = vector_add_trace()
    path = write_list(tmp_path, text)
    kernel = ws.kernels.from_trace(path, binary=folder() / "vector.sm_80.sass")
    static = ws.load_kernel("cuda/vector_add", caches="none")
    traced = read(tmp_path / "kernel-1.traceg")
    by_address = {one.address: one.opcode for one in function.code}
    assert all(by_address[one.pc] == one.opcode for one in traced.instructions)
    issued = [one for one in kernel.body if hasattr(one, "op")]
    assert ops(issued).count("load") == ops(static.body).count("load") == 2

    def fields(statements):
        instructions = [one for one in statements if getattr(one, "op", "branch") not in ("branch", "exit")]
        return [(one.op, one.cost and one.cost.gap_cycles, one.src, one.dst, one.reads) for one in instructions]

    assert fields(issued) == fields(one for _, one in walk(static.body) if hasattr(one, "op"))


def test_a_binary_that_was_not_traced_is_refused(tmp_path):
    _, text = vector_add_trace()
    path = write_list(tmp_path, text.replace(" LDG.E", " STG.E"))
    with pytest.raises(FrontEndError, match="differ: at 0x"):
        ws.kernels.from_trace(path, binary=folder() / "vector.sm_80.sass")
    path = write_list(tmp_path, copy_trace())
    with pytest.raises(FrontEndError, match=r"is not in .*functions there: "):
        ws.kernels.from_trace(path, binary=folder() / "vector.sm_80.sass")


def test_a_packed_trace_is_the_same(tmp_path):
    path = write_list(tmp_path, copy_trace())
    plain = ws.kernels.from_trace(path)
    (tmp_path / "kernel-1.traceg").unlink()
    (tmp_path / "kernel-1.traceg.xz").write_bytes(lzma.compress(copy_trace().encode()))
    assert ws.kernels.from_trace(path) == plain
    path.write_text("kernel-1.traceg.xz\n")
    assert ws.kernels.from_trace(path) == plain


def test_the_compiled_form_is_kept_until_the_trace_changes(tmp_path, monkeypatch):
    path = write_list(tmp_path, copy_trace())
    first = ws.kernels.from_trace(path)
    stored = list((tmp_path / "cache").iterdir())
    assert len(stored) == 1 and stored[0].stat().st_size < 20_000
    with monkeypatch.context() as patched:
        patched.setattr(traces, "compile_warps", None)  # is not called
        assert ws.kernels.from_trace(path) == first
    stored[0].write_bytes(stored[0].read_bytes()[:500])
    assert ws.kernels.from_trace(path) == first
    write_list(tmp_path, copy_trace(blocks=2))
    assert compiled_trace(tmp_path / "kernel-1.traceg").blocks == 2


def test_threads_that_update_one_address_follow_one_another(tmp_path):
    """Read from the trace, and from its compiled form; in shared memory they are the ways of a conflict."""
    base = 0x7F0000000000
    rows = [
        f"0000 ffffffff 1 R2 ATOMS.EXCH 2 R3 R4 4 1 {base:#x} 0",
        f"0010 ffffffff 1 R2 ATOMS.EXCH 2 R3 R4 4 1 {base:#x} 4",
        f"0020 ffffffff 1 R5 ATOMG.E.ADD.STRONG.GPU 2 R6 R7 4 1 {base + (1 << 33):#x} 0",
        "0030 ffffffff 0 EXIT 0 0",
    ]
    path = write_list(tmp_path, trace_text([[rows]], grid=1, block=32, shared=256))
    for _ in range(2):
        one, each, update = ws.kernels.from_trace(path).body[:3]
        assert (one.ways, each.ways) == (32, 1)
        assert update.op == "atomic" and update.cost.updates == 32


def test_more_paths_than_fit_are_represented_by_the_nearest(tmp_path, monkeypatch):
    monkeypatch.setattr(traced_kernel, "MOST_PATHS", 2)
    path = write_list(tmp_path, copy_trace(trips=lambda block, warp: (1, 1, 3, 4)[warp] if block else 3))
    with pytest.warns(AssumptionWarning, match="2 of 3 different paths are kept, which 79.2% of the warps take"):
        kernel = ws.kernels.from_trace(path)
    assert kernel.shares() == [9 / 24 + 5 / 24, 10 / 24]


def test_caches_that_are_not_known_are_named(tmp_path):
    path = write_list(tmp_path, copy_trace().replace("-binary version = 80", "-binary version = 61"))
    with pytest.warns(AssumptionWarning, match="the caches of sm_61 are not known: no access hits"):
        ws.kernels.from_trace(path)


@pytest.mark.parametrize("ascends", [True, False])
def test_paths_of_all_lengths_are_kept(tmp_path, monkeypatch, ascends):
    """Block b of 40 makes b + 1 trips. With 8 paths for all, as many instructions are executed as were traced."""
    monkeypatch.setattr(traced_kernel, "MOST_PATHS", 8)
    loops = [[f"{16 * k:04x} ffffffff 1 R1 FADD 1 R2 0" for k in range(1, 4)] * trips for trips in range(1, 41)]
    blocks = [[[*rows, "0100 ffffffff 0 EXIT 0 0"]] for rows in (loops if ascends else loops[::-1])]
    with pytest.warns(AssumptionWarning, match=r"8 of 40 different paths are kept.*: \d+\.\d% of the instructions are executed"):
        kernel = ws.kernels.from_trace(write_list(tmp_path, trace_text(blocks, grid=40, block=32)), caches="none")
    found = ws.simulate("a100", kernel, launch=ws.Launch(blocks=40, block_warps=1), replicates=1)
    assert float(found["instructions"].sum()) == pytest.approx(sum(len(warp) for (warp,) in blocks), rel=0.06)


def test_a_path_that_does_not_fit_has_mean_trips_and_then_a_beginning(tmp_path, monkeypatch):
    monkeypatch.setattr(traced_kernel, "MOST_STATEMENTS", 4)
    with pytest.warns(AssumptionWarning) as notes:
        kernel = ws.kernels.from_trace(write_list(tmp_path, copy_trace(trips=lambda block, warp: 3)))
    assert [str(note.message).partition(": ")[2] for note in notes] == [
        "the path of most warps does not fit: loops with the same body have the mean number of trips",
        "and its first 4 statements stand for it",
    ]
    assert ops(kernel.body) == ["smem", "imad"]


def test_blocks_that_were_not_traced_are_named(tmp_path):
    text = copy_trace(blocks=2).replace("grid dim = (2,1,1)", "grid dim = (9,1,1)")
    with pytest.warns(AssumptionWarning, match="2 of 9 blocks were traced"):
        ws.kernels.from_trace(write_list(tmp_path, text))


def test_versions_differ_in_their_fields(tmp_path):
    first = ws.kernels.from_trace(write_list(tmp_path, copy_trace(blocks=1)))
    old = copy_trace(blocks=1).replace("version = 4", "version = 2")
    old = "\n".join(f"0 0 0 0 {row}" if row[:2] == "00" else row for row in old.split("\n"))
    assert ws.kernels.from_trace(write_list(tmp_path, old)) == first
    new = copy_trace(blocks=1).replace("version = 4", "version = 5\n-enable lineinfo = 1")
    new = "\n".join(f"17 {row} 0" if row[:2] == "00" else row for row in new.split("\n"))
    kernel = ws.kernels.from_trace(write_list(tmp_path, new))
    assert kernel.identity() == first.identity() and "17" in kernel.body[0].comment
    later = copy_trace(blocks=1).replace("version = 4", "version = 9")
    with pytest.warns(AssumptionWarning, match="a trace of version 9 is read as one of version 6, the newest that is known"):
        assert ws.kernels.from_trace(write_list(tmp_path, later)) == first


def test_of_several_launches_one_is_named(tmp_path):
    other = copy_trace(blocks=2).replace("_Z4copyPfS_", "_Z5scalePf")
    path = write_list(tmp_path, copy_trace(), other, copy_trace(blocks=3))
    assert ws.kernels.from_trace(path, 2).name == ws.kernels.from_trace(path, "scale").name == "scale"
    for wanted, words in ((None, "there are several"), ("copy", "several launches match"), ("x", "no such"), (4, "from 1 to 3")):
        with pytest.raises(FrontEndError, match=words):
            ws.kernels.from_trace(path, wanted)


def test_the_command_line_imports_a_launch(tmp_path, capsys):
    path = write_list(tmp_path, copy_trace())
    output = tmp_path / "copy.toml"
    assert cli.main(["import", str(path), "-o", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["blocks"] == 6
    assert ws.load_kernel(output) == ws.kernels.from_trace(path)
    assert cli.main(["import", str(path), "-o", str(output), "--trips", "3=4"]) == 2
    assert "--trips" in capsys.readouterr().err
    assert cli.main(["import", str(folder() / "vector.sm_80.sass"), "-o", str(output), "--kernel", "1"]) == 2


DAMAGED = [
    (lambda text: text[: text.rindex("0070")], "ends within warp 3 of block .*: 1 instructions are missing"),
    (lambda text: text[: text.rindex(" EXIT")], "is no instruction of a trace: the file ends within this line"),
    (lambda text: text[: text.rindex("#END_TB")], "ends within block"),
    (lambda text: text.replace("-grid dim", "-grid"), "-grid dim"),
    (lambda text: text.replace("(128,1,1)", "(0,1,1)"), "-block dim"),
    (lambda text: text.replace("(128,1,1)", "(64,1,1)"), "warp = 2"),
    (lambda text: text.replace("-kernel name", "-kernel"), "no -kernel name"),
    (lambda text: text.replace("-nregs = 16", "-nregs = many"), "line 6: -nregs = many"),
    (lambda text: text.replace("-nregs = 16\n", ""), "the head has no -nregs"),
    (lambda text: text.replace("grid dim = (6,1,1)", "grid dim = (5,1,1)"), "is not in the grid"),
    (lambda text: text.replace("thread block = 1,", "thread block = 0,"), "is there twice"),
    (lambda text: text.replace("insts = 18", "insts = 19"), "is no instruction"),
    (lambda text: text.replace("insts = 18", "insts = 17"), "is not expected here"),
    (lambda text: text.replace("FADD 2 R6 R6", "FADD 2 R6"), "is no instruction"),
    (lambda text: text.replace("0030", "0020", 1), "is LDG.E here and another one before|is FADD here and another one before"),
    (lambda text: text.replace("0020 ffffffff", "0020 fffffffff"), "is no instruction"),
    (lambda text: text.replace("4 2 0x", "4 7 0x"), "is no instruction"),
    (lambda text: text.split("#BEGIN")[0], "holds no warp"),
    (lambda text: re.sub(r"(?s)warp = 2\n.*?warp = 3", "warp = 3", text, count=1), r"line 54: block .* ends without warp 2 of 4"),
    (lambda text: re.sub(r"(?s)warp = 0\n.*?#END", "#END", text, count=1), "block .* ends without warp 0 of 4"),
    (lambda text: text.replace("warp = 2", "thread block = 1,0,0\nwarp = 2", 1), "'thread block = 1,0,0' is not expected here"),
    (lambda text: text.replace("(6,1,1)", "(00,1,1)"), r"line \d+: -grid dim = \(00,1,1\): must be three numbers from 1"),
    (lambda text: text.replace("(6,1,1)", "(-6,1,1)"), r"line \d+: -grid dim = \(-6,1,1\): must be three numbers from 1"),
    (lambda text: text.replace("(6,1,1)", "(2147483648,1,1)"), r"line \d+: -grid dim = .*grid\.x = 2147483648: must be at most"),
    (lambda text: text.replace("(6,1,1)", "(6,65536,1)"), r"line \d+: -grid dim = .*grid\.y = 65536: must be at most 65535"),
    (lambda text: text.replace("(6,1,1)", "(65535,65535,9)"), r"line \d+: -grid dim = .*: must be at most 2147483647 blocks"),
    (lambda text: text.replace("(128,1,1)", "(128,9,1)"), r"line \d+: .*block of 1152 threads: must be at most 1024"),
    (lambda text: text.replace("(128,1,1)", "(1,1,128)"), r"line \d+: .*block\.z = 128: must be at most 64"),
    (lambda text: text.replace("0070 ffffffff", "0070 " + "f" * 70_000, 1), r"line 30: a line of more than 65536 bytes"),
    (lambda text: "-" + "k" * 70_000 + text, "line 1: a line of more than 65536 bytes"),
    (lambda text: "", "the head has no -grid dim"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGED)
def test_a_damaged_trace_is_refused_with_its_place(tmp_path, damage, words):
    path = write_list(tmp_path, damage(copy_trace()))
    with pytest.raises(FrontEndError, match=words):
        ws.kernels.from_trace(path)
    assert not list((tmp_path / "cache").rglob("*.npz"))


def test_a_packed_line_without_an_end_takes_no_memory(tmp_path):
    """A line of 128 MiB is packed into 20 KB."""
    with lzma.open(tmp_path / "kernel-1.traceg.xz", "wb", preset=0) as file:
        for _ in range(128):
            file.write(b"0" * 2**20)
    tracemalloc.start()
    with pytest.raises(FrontEndError, match=r"kernel-1\.traceg\.xz, line 1: a line of more than 65536 bytes"):
        read(tmp_path / "kernel-1.traceg.xz")
    assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    tracemalloc.stop()


def test_damaged_lists_and_packed_traces_are_refused(tmp_path):
    path = tmp_path / "kernelslist.g"
    for text, words in (("", "names no trace"), ("what\n", "line 1: 'what' is neither"), ("kernel-1.traceg\n", "cannot be read")):
        path.write_text(text)
        with pytest.raises(FrontEndError, match=words):
            ws.kernels.from_trace(path)
    packed = lzma.compress(copy_trace().encode())
    for data in (packed[:-40], b"no archive"):
        (tmp_path / "kernel-1.traceg.xz").write_bytes(data)
        with pytest.raises(FrontEndError, match="damaged or ends too early"):
            ws.kernels.from_trace(path)
    with pytest.raises(FrontEndError, match="cannot be read"):
        ws.kernels.from_trace(tmp_path / "none.g")


def other_numbers(rows, at, draw):
    """Numbers that are too large, negative or missing."""
    rows[at] = rows[at].replace("1", draw.choice(["99999999999999999999", "-1", "0", ""]))


def cut(rows, at, _):
    """The end is missing."""
    del rows[at + 1 :]


def check(folder, seed):
    draw = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            valid, changes = copy_trace(blocks=2, warps=2), [other_numbers, cut]
            text = damaged(valid, draw, characters="0123456789abfxR-#,. =é\0", separator=" ", others=changes)
            ws.kernels.from_trace(write_list(folder, text), caches="none")
        except FrontEndError as error:
            assert str(error), seed


def test_damaged_traces_end_in_the_documented_errors(tmp_path):
    for seed in range(200):
        check(tmp_path, seed)


@pytest.mark.verify
def test_damaged_traces_end_in_the_documented_errors_at_length(tmp_path):
    for seed in range(1000, 21_000):
        check(tmp_path, seed)
