"""A slow machine that executes the kernels' PTX, with a clock of known latencies and intervals.

It is for tests on computers without a GPU: every access must lie in memory that was allocated, every kernel must compute
what its comment says, and what the benchmarks find must be what `LATENCY` and `INTERVAL` say. A warp executes in order, its
lanes in lockstep; lanes that took different branches are executed one group after the other, the lowest address
first. Four schedulers issue one instruction a cycle each; a warp that issued last goes first, then the youngest.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from tests.measure.analytic_device import PROPERTIES
from warpsim.measure.compiler import FOLDER, Binary, digest
from warpsim.measure.device import Buffer, Kernel

LATENCY = {"add.rn.f32": 4, "fma.rn.f32": 4, "fma.rn.f64": 8, "rsqrt": 19, "shfl": 24, "mul.wide.u32": 5, "xor": 4}
INTERVAL = {"rsqrt": 8, "fma.rn.f64": 2}  # cycles of a scheduler's unit
SHARED_LATENCY, L1_LATENCY, L2_LATENCY, DRAM_LATENCY = 23, 33, 270, 600
SHARED_INTERVAL = 2  # cycles of the SM's unit
BARRIER_LATENCY = 15
CLOCK = 2.0  # GHz
SHARED_BASE, CONST_BASE = 1 << 60, 1 << 59

FLOAT = {"f32": np.float32, "f64": np.float64}
SIZE = {"32": 4, "64": 8, "16": 2, "8": 1}


class PtxError(AssertionError):
    """The program does what it must not: an access outside of its memory, or an instruction that is not known."""


@dataclass
class Instruction:
    opcode: str
    operands: list
    guard: str = ""


@dataclass
class Function:
    parameters: list = field(default_factory=list)
    code: list = field(default_factory=list)
    labels: dict = field(default_factory=dict)
    shared: dict = field(default_factory=dict)  # name -> offset
    shared_bytes: int = 0


def parse(text):
    """Return the functions of a PTX module by name, and the names of its variables in constant memory."""
    functions, constants, current = {}, {}, None
    text = re.sub(r"//[^\n]*", "", text)
    header = re.compile(r"\.visible \.entry (\w+)\(([^)]*)\)")
    for match in header.finditer(text):
        function = functions[match[1]] = Function(re.findall(r"\.param \.u64 (\w+)", match[2]))
        end = header.search(text, match.end())
        body = text[match.end() : end.start() if end else len(text)]
        for size, name, count in re.findall(r"\.shared \.align \d+ \.[bu](\d+) (\w+)(?:\[(\d+)\])?", body):
            function.shared[name] = function.shared_bytes
            function.shared_bytes += int(size) // 8 * int(count or 1)
        current = function
        for part in re.split(r"[;\n]", re.sub(r"(\$L\w+):", r"\1:;", re.sub(r"(?<!\w)\.(reg|pragma|shared)\s[^;]*;", "", body))):
            part = part.strip()
            if part.startswith("$L"):
                current.labels[part.rstrip(":")] = len(current.code)
            elif found := re.match(r"[{}\s]*(@!?%?\w+\s+)?([a-z][\w.]+)\s*([^;]*?)\s*$", part):
                operands = re.findall(
                    r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*",
                    found[3].rstrip("} ") + ("}" if found[3].count("{") > found[3].rstrip("} ").count("}") else ""),
                )
                current.code.append(Instruction(found[2], [one.strip() for one in operands], (found[1] or "").strip()[1:]))
    for name in re.findall(r"\.const \.align \d+ \.b\d+ (\w+)\[", text):
        constants[name] = CONST_BASE + 4096 * len(constants)
    return functions, constants


def compile_ptx(source, defines):
    from cuda.bindings import nvrtc

    headers = sorted(FOLDER.glob("*.cuh"))
    _, program = nvrtc.nvrtcCreateProgram(
        (FOLDER / source).read_bytes(),
        source.encode(),
        len(headers),
        [h.read_bytes() for h in headers],
        [h.name.encode() for h in headers],
    )
    options = [b"-arch=compute_90", *(f"-D{name}={value}".encode() for name, value in defines.items())]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    assert int(code) == 0, code
    _, size = nvrtc.nvrtcGetPTXSize(program)
    text = bytes(size)
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(program)
    return text.rstrip(b"\0").decode()


class PtxDevice:
    """A `Device` that executes PTX."""

    def __init__(self, sms=3):
        self.properties = PROPERTIES.__class__(**{**PROPERTIES.__dict__, "sms": sms})
        self.software = {"nvrtc": "PTX"}
        self.bases, self.buffers = [], []
        self.next = 1 << 33
        self.modules = {}
        self.time = 0
        self.l2 = set()

    def kernel(self, source, function, defines):
        key = source, tuple(sorted(defines.items()))
        if key not in self.modules:
            self.modules[key] = parse(compile_ptx(source, defines))
        functions, constants = self.modules[key]
        return Kernel(
            function, Binary(source, dict(defines), "compute_90", b"", digest(source)), (functions[function], constants)
        )

    def allocate(self, nbytes):
        buffer = Buffer(self.next, nbytes)
        self.bases.append(self.next)
        self.buffers.append(np.zeros(nbytes, np.uint8))
        self.next += (nbytes + 0xFFFF) // 0x10000 * 0x10000
        return buffer

    def free(self, buffer):
        place = self.bases.index(buffer.address)
        del self.bases[place], self.buffers[place]

    def clear(self, buffer):
        self.buffers[self.bases.index(buffer.address)][:] = 0
        self.l2.clear()

    def write(self, buffer, values):
        data = np.ascontiguousarray(values).view(np.uint8)
        self.buffers[self.bases.index(buffer.address)][: len(data)] = data

    def read(self, buffer, dtype, count):
        data = self.buffers[self.bases.index(buffer.address)]
        return data[: count * np.dtype(dtype).itemsize].view(dtype).copy()

    def resident_blocks(self, kernel, block, shared):
        return min(2048 // block, 32)

    def milliseconds(self, kernel, grid, block, *arguments, shared=0, launches=1):
        before = self.time
        self.launch(kernel, grid, block, *arguments)
        return (self.time - before) / CLOCK / 1e6

    def launch(self, kernel, grid, block, *arguments, shared=0):
        function, constants = kernel.handle
        assert len(arguments) == len(function.parameters), f"{kernel.function}: {len(arguments)} arguments, {function.parameters}"
        values = {
            name: np.uint64(one.address if isinstance(one, Buffer) else one)
            for name, one in zip(function.parameters, arguments, strict=True)
        }
        end = self.time
        for sm in range(min(self.properties.sms, grid)):
            end = max(end, Sm(self, sm, function, constants, values, grid, block, self.time + 100).run())
        self.time = end

    def at(self, address, count):
        """The bytes of a place in global memory."""
        place = bisect_right(self.bases, int(address)) - 1
        if place < 0 or int(address) + count > self.bases[place] + len(self.buffers[place]):
            raise PtxError(f"access of {count} bytes at {int(address):#x}: outside of all buffers")
        return self.buffers[place], self.bases[place]


class Warp:
    def __init__(self, block, index, threads):
        self.block, self.index = block, index
        self.registers, self.ready = {}, {}
        self.pc = np.zeros(32, np.int64)
        self.alive = np.arange(32) < threads
        self.time, self.waits = 0, None


class Block:
    def __init__(self, number, function, threads):
        self.number = number
        self.shared = np.zeros(max(function.shared_bytes, 4), np.uint8)
        self.warps = [Warp(self, w, min(32, threads - 32 * w)) for w in range(-(-threads // 32))]


class Sm:
    """Executes the blocks of one SM, two of them at a time at most."""

    def __init__(self, device, sm, function, constants, parameters, grid, threads, time):
        self.device, self.sm, self.function, self.constants, self.parameters = device, sm, function, constants, parameters
        self.grid, self.threads, self.time = grid, threads, time
        self.supply = list(range(sm, grid, device.properties.sms))
        self.scheduler_free, self.last = [time] * 4, [None] * 4
        self.unit_free, self.shared_free = {}, time
        self.l1 = set()
        self.symbols = {**constants, **function.shared}

    def run(self):
        resident, end = [], self.time
        while self.supply or resident:
            while self.supply and len(resident) < 2:
                block = Block(self.supply.pop(0), self.function, self.threads)
                for warp in block.warps:
                    warp.time = end
                resident.append(block)
            warps = [w for b in resident for w in b.warps if w.alive.any() and w.waits is None]
            if not warps:
                raise PtxError("all warps wait at barriers")
            plans = [self.plan(w) for w in warps]
            time = min(plan[0] for plan in plans)
            ready = [plan for plan in plans if plan[0] == time]
            ready.sort(key=lambda plan: (self.last[plan[1].index % 4] is not plan[1], -plan[1].block.number, -plan[1].index))
            _, warp, pc, mask = ready[0]
            self.issue(time, warp, pc, mask)
            end = max(end, time)
            for block in [b for b in resident if not any(w.alive.any() for w in b.warps)]:
                resident.remove(block)
        return end + 1

    def plan(self, warp):
        pc = int(warp.pc[warp.alive].min())
        one = self.function.code[pc]
        names = re.findall(r"%?[a-z]\w*", " ".join([*one.operands, one.guard]))
        time = max([warp.time, *(warp.ready.get(name, 0) for name in names)])
        if not free_of_charge(one):
            time = max(time, self.scheduler_free[warp.index % 4])
            key = unit(one.opcode)
            if key in INTERVAL:
                time = max(time, self.unit_free.get((key, warp.index % 4), 0))
            if ".shared" in one.opcode and one.opcode.startswith(("ld", "st", "atom")):
                time = max(time, self.shared_free)
        return time, warp, pc, warp.alive & (warp.pc == pc)

    def issue(self, time, warp, pc, mask):
        one = self.function.code[pc]
        scheduler = warp.index % 4
        if one.guard:
            predicate = warp.registers[one.guard.lstrip("!")]
            guarded = mask & (~predicate if one.guard.startswith("!") else predicate)
        else:
            guarded = mask
        if not free_of_charge(one):
            self.scheduler_free[scheduler] = warp.time = time + 1
            self.last[scheduler] = warp
            if unit(one.opcode) in INTERVAL:
                self.unit_free[unit(one.opcode), scheduler] = time + INTERVAL[unit(one.opcode)]
            if ".shared" in one.opcode and one.opcode.startswith(("ld", "st", "atom")):
                self.shared_free = time + SHARED_INTERVAL
        base, *kinds = one.opcode.split(".")
        if base == "bra":
            target = self.function.labels[one.operands[0]]
            warp.pc[mask] = pc + 1
            warp.pc[guarded] = target
            return
        warp.pc[mask] = pc + 1
        if base in ("ret", "exit"):
            warp.alive &= ~guarded
            return
        if base == "bar":
            if kinds[0] == "sync":
                self.barrier(time, warp, one)
            return
        if not guarded.any():
            return
        latency = self.execute(time, warp, base, kinds, one.operands, guarded)
        if one.operands and not base.startswith("st") and base != "red":
            for name in re.findall(r"%?[a-z]\w*", one.operands[0]):
                warp.ready[name] = time + latency

    def barrier(self, time, warp, one):
        warp.waits = one.operands[0]
        live = [w for w in warp.block.warps if w.alive.any()]
        need = int(self.value(warp, one.operands[1], "u32")[0]) // 32 if len(one.operands) > 1 else len(live)
        waiting = [w for w in live if w.waits == warp.waits]
        if len(waiting) == need:
            for other in waiting:
                other.waits, other.time = None, time + BARRIER_LATENCY

    def value(self, warp, word, kind):
        """float or unsigned array[32] of an operand."""
        if word.startswith("%") and word not in warp.registers:
            special = self.special(warp, word)
            if special is not None:
                return special.astype(np.uint64) if kind.endswith("64") else special.astype(np.uint32)
        if word in warp.registers:
            raw = warp.registers[word]
            if kind == "pred":
                return raw
        elif word in self.symbols:
            raw = np.full(32, self.symbols[word], np.uint64)
        elif re.fullmatch(r"0f[0-9A-Fa-f]{8}", word):
            raw = np.full(32, int(word[2:], 16), np.uint64)
        elif re.fullmatch(r"0d[0-9A-Fa-f]{16}", word):
            raw = np.full(32, int(word[2:], 16), np.uint64)
        elif re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", word):
            raw = np.full(32, int(word, 0) % 2**64, np.uint64)
        else:
            raise PtxError(f"{word}: read before it was written")
        if kind == "pred":
            return raw != 0
        if kind in FLOAT:
            return (raw.astype(np.uint32) if kind == "f32" else raw).view(FLOAT[kind])
        return raw if kind.endswith("64") else raw.astype(np.uint32)

    def special(self, warp, word):
        lane = np.arange(32, dtype=np.uint64)
        values = {
            "%tid.x": lane + np.uint64(32 * warp.index),
            "%tid.y": 0,
            "%ntid.x": self.threads,
            "%ctaid.x": warp.block.number,
            "%nctaid.x": self.grid,
            "%smid": self.sm,
            "%clock64": warp.time - 1,
            "%globaltimer": int((warp.time - 1) / CLOCK),
        }
        return (
            np.zeros(32, np.uint64) + np.uint64(values[word])
            if word in values and not isinstance(values[word], np.ndarray)
            else values.get(word)
        )

    def put(self, warp, name, value, mask):
        if value.dtype == bool:
            raw = value
        elif value.dtype.kind == "f":
            raw = value.view(np.uint32 if value.itemsize == 4 else np.uint64).astype(np.uint64)
        else:
            raw = value.astype(np.uint64)
        old = warp.registers.get(name)
        warp.registers[name] = raw.copy() if old is None else np.where(mask, raw, old)

    def execute(self, time, warp, base, kinds, operands, mask):
        """Execute one instruction; returns the latency of its result."""
        kind = kinds[-1] if kinds else ""
        with np.errstate(all="ignore"):
            if base in ("ld", "st", "atom", "red"):
                return self.memory(warp, base, kinds, operands, mask)
            if base == "mov" and operands[0].startswith("{"):
                low, high = (word.strip() for word in operands[0].strip("{}").split(","))
                whole = self.value(warp, operands[1], "u64")
                self.put(warp, low, whole & np.uint64(0xFFFFFFFF), mask)
                self.put(warp, high, whole >> np.uint64(32), mask)
                return 0
            if base == "mov" and len(operands) > 1 and operands[1].startswith("{"):
                low, high = (self.value(warp, word.strip(), "u64") for word in operands[1].strip("{}").split(","))
                self.put(warp, operands[0], low | high << np.uint64(32), mask)
                return 0
            if base == "shfl":
                source = self.value(warp, operands[1], "u32")
                self.put(warp, operands[0].split("|")[0], source[np.arange(32) ^ int(operands[2])], mask)
                return LATENCY["shfl"]
            if base == "cvta":
                shift = np.uint64(SHARED_BASE if "shared" in kinds else 0)
                source = self.value(warp, operands[1], "u64")
                self.put(warp, operands[0], source - shift if "to" in kinds else source + shift, mask)
                return 0
            if base == "cvt":
                to, source = kinds[-2], self.value(warp, operands[1], kinds[-1])
                if to in FLOAT:
                    self.put(warp, operands[0], source.astype(FLOAT[to]), mask)
                else:
                    wide = source.astype(np.int64).astype(np.uint64) if source.dtype.kind == "f" else source.astype(np.uint64)
                    self.put(warp, operands[0], wide if to.endswith("64") else wide.astype(np.uint32), mask)
                return 4
            name, *sources = operands
            if base == "setp":
                a, b = (self.signed(self.value(warp, word, kind), kind) for word in sources)
                compare = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "neu": a != b}
                self.put(warp, name, compare[kinds[0]], mask)
                return 4
            if base == "selp":
                a, b = (self.value(warp, word, kind) for word in sources[:2])
                self.put(warp, name, np.where(warp.registers[sources[2]], a, b), mask)
                return 4
            values = [self.signed(self.value(warp, word, kind), kind) for word in sources]
            a, b, c = (*values, None, None)[:3]
            if kind == "pred":
                result = {"mov": lambda: a, "or": lambda: a | b, "and": lambda: a & b, "not": lambda: ~a}[base]()
            elif kinds[:1] == ["wide"]:
                result = a.astype(np.uint64) * b.astype(np.uint64)
                if base == "mad":
                    result = result + self.value(warp, sources[2], "u64")
            else:
                result = {
                    "mov": lambda: a,
                    "add": lambda: a + b,
                    "sub": lambda: a - b,
                    "mul": lambda: a * b,
                    "mad": lambda: a * b + c,
                    "fma": lambda: a * b + c,
                    "and": lambda: a & b,
                    "or": lambda: a | b,
                    "xor": lambda: a ^ b,
                    "not": lambda: ~a,
                    "neg": lambda: -a,
                    "shl": lambda: a << self.value(warp, sources[1], kind),
                    "shr": lambda: a >> self.value(warp, sources[1], kind),
                    "min": lambda: np.minimum(a, b),
                    "max": lambda: np.maximum(a, b),
                    "div": lambda: a // b,
                    "rem": lambda: a % b,
                    "rsqrt": lambda: (1 / np.sqrt(a)).astype(np.float32),
                }[base]()
            self.put(warp, name, result, mask)
        return LATENCY.get(".".join([base, *kinds]), LATENCY.get(base, 4 if not free_of_charge_name(base, kinds) else 0))

    @staticmethod
    def signed(value, kind):
        return value.view(np.int32 if value.itemsize == 4 else np.int64) if kind in ("s32", "s64") else value

    def memory(self, warp, base, kinds, operands, mask):
        kind = kinds[-1]
        size = SIZE[kind.lstrip("usbf")]
        address_word = operands[0 if base in ("st", "red") else 1]
        values = operands[0] if base == "ld" else operands[-1]
        if "param" in kinds:
            self.put(
                warp, operands[0], np.full(32, self.parameters[address_word.strip("[]")], np.uint64).astype(f"u{size}"), mask
            )
            return 0
        place, _, offset = address_word.strip("[]").replace(" ", "").partition("+")
        address = self.value(warp, place, "u64") + np.uint64(int(offset or 0) % 2**64)
        words = [word.strip() for word in values.strip("{}").split(",")]
        if (address[mask] % np.uint64(size * len(words))).any():
            raise PtxError(f"{base}.{'.'.join(kinds)} at {int(address[mask][0]):#x}: not aligned")
        in_shared = "shared" in kinds or bool(np.all(address[mask] >= np.uint64(SHARED_BASE)))
        for lane_word, word in enumerate(words):
            here = address + np.uint64(size * lane_word)
            if in_shared:
                data, start = warp.block.shared, 0 if "shared" in kinds else SHARED_BASE
                limit = len(data)
            elif "const" in kinds:
                data, start = np.zeros(4096 * max(1, len(self.constants)), np.uint8), CONST_BASE
                limit = len(data)
            else:
                data, start = self.device.at(here[mask].min(), size)
                limit = len(data)
            places = here[mask].astype(np.int64) - start
            if places.min() < 0 or places.max() + size > limit:
                raise PtxError(f"{base}.{'.'.join(kinds)}: {int(places.max())} of {limit} bytes")
            view = data[: limit // size * size].view(f"u{size}")
            index = places // size
            if base == "ld":
                loaded = np.zeros(32, f"u{size}")
                loaded[mask] = view[index]
                self.put(warp, word, loaded, mask)
            elif base == "st":
                view[index] = self.value(warp, word, "u64" if size == 8 else "u32")[mask]
            else:
                old = np.zeros(32, f"u{size}")
                operand = self.value(warp, word, "u64" if size == 8 else "u32")
                for lane, where in zip(np.flatnonzero(mask), index, strict=True):
                    old[lane] = view[where]
                    view[where] = operand[lane] if "exch" in kinds else old[lane] + operand[lane]
                if base == "atom":
                    self.put(warp, operands[0], old, mask)
        if in_shared or "const" in kinds:
            return SHARED_LATENCY
        lines = {int(one) // 128 for one in address[mask]}
        found = L1_LATENCY if lines <= self.l1 else L2_LATENCY if lines <= self.device.l2 else DRAM_LATENCY
        if base == "ld" and "cg" not in kinds:
            self.l1 |= lines
        elif found == L1_LATENCY:
            found = L2_LATENCY
        self.device.l2 |= lines
        return found


def unit(opcode):
    base = opcode.split(".")[0]
    return opcode if opcode in INTERVAL else base


def free_of_charge_name(base, kinds):
    return base in ("mov", "cvta") or "param" in kinds


def free_of_charge(one):
    """Whether the machine code has no instruction for it; readings of the clock take an issue."""
    if any(word.startswith(("%clock", "%globaltimer")) for word in one.operands):
        return False
    base, *kinds = one.opcode.split(".")
    return free_of_charge_name(base, kinds)
