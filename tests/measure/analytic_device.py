"""A device that runs no code: it answers every launch by a formula with known parameters.

So the benchmarks, their evaluation and the chip file run as a whole, and what they find can be compared with the
parameters below. Warps are perfect, and the memory's latency is a + b x / (c - x) at a load of x GB/s.
"""

import numpy as np

from warpsim.measure.compiler import Binary, digest
from warpsim.measure.device import Buffer, Kernel, Properties
from warpsim.measure.operations import OPERATIONS

LATENCY = {
    "fadd": 4,
    "fmul": 4,
    "ffma": 4,
    "iadd3": 4,
    "imad": 4,
    "imad_hi": 6,
    "imad_wide": 5,
    "lop3": 4,
    "shf": 5,
    "prmt": 5,
    "dp4a": 5,
}
LATENCY |= {
    "popc": 16,
    "dadd": 8,
    "dfma": 9,
    "hfma2": 6,
    "rcp": 23,
    "rsqrt": 21,
    "sqrt": 22,
    "ex2": 20,
    "sin": 19,
    "cvt_f32_s32": 14,
}
LATENCY |= {
    "cvt_f32_f64": 17,
    "shfl": 24,
    "lds": 23,
    "lds_64": 24,
    "lds_128": 28,
    "atoms": 60,
    "ldg": 33,
    "ldg_64": 34,
    "ldc": 30,
    "hmma": 33,
}
PER_SCHEDULER = {
    "fadd": 1,
    "fmul": 1,
    "ffma": 1,
    "iadd3": 2,
    "imad": 2,
    "imad_hi": 4,
    "imad_wide": 4,
    "lop3": 2,
    "shf": 2,
    "prmt": 2,
}
PER_SCHEDULER |= {
    "dp4a": 2,
    "popc": 8,
    "dadd": 2,
    "dfma": 2,
    "hfma2": 2,
    "rcp": 8,
    "rsqrt": 8,
    "sqrt": 8,
    "ex2": 8,
    "sin": 8,
    "cvt_f32_s32": 4,
}
PER_SCHEDULER |= {"cvt_f32_f64": 16, "hmma": 16, "ldc": 2}
PER_SM = {"shfl": 2, "lds": 1, "lds_64": 2, "lds_128": 4, "atoms": 4, "ldg": 1, "ldg_64": 2}
CONFLICT = 2  # cycles for each further way
LOOP = 11  # cycles of one turn of a loop
CLOCK = 1.7  # GHz
A, B, C, PEAK = 600.0, 40.0, 310.0, 290.0  # memory: cycles, cycles, GB/s, GB/s
L1, L2, TIMING = 34, 270, 9  # cycles
BARRIER, BARRIER_WARP = 18.0, 1.5
TURNOVER, WARP_DELAY = 450, 4
LAUNCH_US, BLOCK_CYCLES = 2.25, 1.5

PROPERTIES = Properties(
    name="Analytic device",
    compute_capability=(9, 0),
    sms=12,
    max_threads_per_sm=2048,
    max_blocks_per_sm=32,
    max_threads_per_block=1024,
    registers_per_sm=65536,
    shared_bytes_per_sm=233472,
    shared_bytes_per_block=232448,
    shared_bytes_reserved=1024,
    l2_bytes=50 * 2**20,
    memory_bytes=80 * 2**30,
    clock_ghz=1.98,
    memory_clock_ghz=2.619,
    memory_bus_bits=512,
    driver="580.159.04",
    cuda="13.0",
)


class AnalyticDevice:
    properties = PROPERTIES

    def __init__(self):
        self.software = {"nvrtc": "none"}
        self.random = np.random.default_rng(1)
        self.content = {}  # address -> what the last launch left there
        self.next = 2**32
        self.footprint = self.jump = 0
        self.allocated = {}

    def kernel(self, source, function, defines):
        return Kernel(function, Binary(source, dict(defines), "sm_90", b"", digest(source)), None)

    def allocate(self, nbytes):
        assert nbytes > 0
        buffer = Buffer(self.next, nbytes)
        self.next += nbytes + 4096
        self.allocated[buffer.address] = nbytes
        return buffer

    def free(self, buffer):
        del self.allocated[buffer.address]
        self.content.pop(buffer.address, None)

    def clear(self, buffer):
        self.content.pop(buffer.address, None)

    def write(self, buffer, values):
        assert values.nbytes <= buffer.nbytes

    def read(self, buffer, dtype, count):
        assert count * np.dtype(dtype).itemsize <= buffer.nbytes
        left = np.zeros(count, dtype)
        found = self.content.get(buffer.address, left)[:count]
        left[: len(found)] = found
        return left

    def resident_blocks(self, kernel, block, shared):
        fit = min(2048 // block, 32)
        return min(fit, PROPERTIES.shared_bytes_per_sm // (shared + 1024)) if shared else fit

    def milliseconds(self, kernel, grid, block, *arguments, shared=0, launches=1):
        self.launch(kernel, grid, block, *arguments, shared=shared)
        if kernel.function == "stream":
            kind, each = kernel.binary.defines["KIND"], kernel.binary.defines["ELEMENTS"]
            arrays = (1, 1, 2, 3)[kind]
            resident = self.resident_blocks(kernel, block, shared)
            in_flight = resident * block * 8 * each * arrays * PROPERTIES.sms  # bytes
            return grid * block * each * 8 * arrays / min(PEAK, in_flight * CLOCK / A) / 1e6
        return 1e-3 * (launches * LAUNCH_US + launches * grid * BLOCK_CYCLES / (CLOCK * 1e3))

    def seconds(self, kernel, grid, block, *arguments, launches=1):
        return 1e-6 * (5 + launches * LAUNCH_US)

    def launch(self, kernel, grid, block, *arguments, shared=0):
        getattr(self, kernel.function)(kernel.binary.defines, grid, block, *arguments)

    def leave(self, buffer, rows):
        values = np.ascontiguousarray(np.asarray(rows).ravel())
        assert values.nbytes <= self.allocated[buffer.address]
        self.content[buffer.address] = values

    def warps(self, grid, block, cycles, width=4):
        """Rows of start, end, SM for warps that all take the same time; blocks go round the SMs."""
        rows = np.zeros((grid * block // 32, width), np.uint64)
        rows[:, 0] = 1000
        rows[:, 1] = 1000 + round(cycles)
        rows[:, 2] = np.repeat(np.arange(grid) % PROPERTIES.sms, block // 32)
        return rows

    def chain(self, defines, grid, block, out, data, trips, seed):
        name = next(key[3:] for key in defines if key.startswith("OP_"))
        op, ilp, repeats = OPERATIONS[name], defines["ILP"], defines["REPEATS"]
        idle = 4 // defines["SCHEDULERS"]
        warps = grid * block // 32 // (1 if grid == 1 else PROPERTIES.sms) // idle
        on_one = -(-warps // defines["SCHEDULERS"])
        latency = op.share * LATENCY[name] + sum(LATENCY[other] for other in op.minus) + CONFLICT * (defines["WAYS"] - 1)
        step = max(latency, op.share * max(on_one * ilp * PER_SCHEDULER.get(name, 0), warps * ilp * PER_SM.get(name, 0)))
        rows = self.warps(grid, block, trips * (repeats * step + LOOP))
        rows[np.arange(len(rows)) % idle != 0] = 0
        self.leave(out, rows)

    def barrier(self, defines, grid, block, out, trips):
        self.leave(out, self.warps(grid, block, trips * (defines["REPEATS"] * (BARRIER + BARRIER_WARP * block / 32) + LOOP), 3))

    def issue_order(self, defines, grid, block, out, seed):
        warps, each = block // 128, 32 * (defines["GAP"] + 1)
        rows = np.zeros((block // 32, 32), np.uint64)
        for warp in range(warps):  # the youngest runs to its end first
            rows[4 * warp] = 500 + (warps - 1 - warp) * each + np.arange(32) * (defines["GAP"] + 1)
        self.leave(out, rows)

    def memory_issue(self, defines, grid, block, out, data):
        count, schedulers = defines["COUNT"], block // 32
        later = max(4, 2 * schedulers)
        cycle = 1 + count if count <= 5 else 13 + later * (count - 6)
        self.leave(out, [(100, 100 + cycle)] * schedulers)

    def sm_clock(self, defines, grid, block, out, duration):
        self.leave(out, [(10, 20, 10 + round(CLOCK * duration), 20 + duration, sm) for sm in range(grid)])

    def empty(self, defines, grid, block):
        pass

    def hold(self, defines, grid, block, out, cycles_held):
        sms, warps = PROPERTIES.sms, block // 32
        resident = grid // (16 * sms)
        rows = np.zeros((grid, warps, 4), np.int64)
        for one in range(grid):
            turn = one // (sms * resident)
            rows[one, :, 0] = 1000 + turn * (cycles_held + (warps - 1) * WARP_DELAY + TURNOVER) + WARP_DELAY * np.arange(warps)
            rows[one, :, 1] = rows[one, :, 0] + cycles_held
            rows[one, :, 2] = one % sms
        self.leave(out, rows.astype(np.uint64))

    def ring(self, defines, grid, block, buffer, nodes, stride, multiplier, increment):
        self.footprint = nodes * stride
        assert self.footprint <= self.allocated[buffer.address]

    def chase(self, defines, grid, block, first, touch, pages, page_bytes, warm, steps, samples, target, times, latencies):
        level = L2 if self.footprint <= PROPERTIES.l2_bytes and not pages else A
        if "THROUGH_L1" in defines and self.footprint <= 200 * 1024:
            level = L1
        self.leave(times, np.array([1, steps * level, first.address, target, round(steps * level / CLOCK), 0], np.uint64))
        taken = np.full(samples, TIMING + (0 if "EMPTY" in defines else level), np.uint32)
        self.leave(latencies, taken)

    def loaded(
        self,
        defines,
        grid,
        block,
        traffic,
        bytes,
        pause,
        duration,
        first,
        touch,
        pages,
        page_bytes,
        settle,
        counts,
        latencies,
        probe,
    ):
        each = 512 * (defines["READS"] + defines["WRITES"])
        gbs = min(0.97 * C, (grid - 1) * (block // 32) * each / max(pause, 1) * CLOCK)
        rows = np.zeros((grid * block // 32, 5), np.uint64)
        ns = round(duration / CLOCK)
        rows[:, 0] = round(gbs * ns / each / ((grid - 1) * (block // 32)))
        rows[:, 1], rows[:, 2] = duration, ns
        self.leave(counts, rows)
        self.leave(latencies, np.full(1000, round(A + B * gbs / (C - gbs)) + TIMING, np.uint32))
        self.leave(probe, np.array([1000, 0, 0], np.uint64))

    def steps_of(self, defines, grid, block, buffer, words, jump):
        assert 4 * words <= self.allocated[buffer.address]
        self.jump = jump

    def stream_chase(self, defines, grid, block, buffer, steps, every, times, latencies):
        assert self.jump == grid * block and steps % 8 == 0
        low, high = 0.0, C
        for _ in range(60):  # Little's law at the load that the latency allows
            x = (low + high) / 2
            low, high = (x, high) if x * (A + B * x / (C - x)) < grid * block * 4 * CLOCK else (low, x)
        latency = A + B * low / (C - low)
        rows = np.zeros((grid * block // 32, 6), np.int64)
        rows[:, 0] = rows[:, 3] = 100
        cycles = (latency + LATENCY["imad_wide"]) * steps
        rows[:, 1], rows[:, 4] = 100 + round(cycles), 100 + round(cycles / CLOCK)
        self.leave(times, rows.astype(np.uint64))
        if every:
            shape = -(-grid // every), 1024
            spread = self.random.exponential(0.1 * latency, shape)
            self.leave(latencies, (0.9 * latency + spread + TIMING + LATENCY["imad_wide"]).round().astype(np.uint32))

    def stream(self, defines, grid, block, a, b, c, scale):
        assert grid * block * defines["ELEMENTS"] * 8 <= self.allocated[a.address]

    def atomic(self, defines, grid, block, out, counters, trips):
        cycles = 8 * trips * (400 if defines["RETURNS"] else 2 * block / 32)
        self.leave(out, self.warps(grid, block, cycles))
