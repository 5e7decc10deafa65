"""Barriers in shared memory by which some warps hand buffers over to others become mbarriers of the kernel."""

import warnings
from functools import cache

import numpy as np
import pytest

import warpsim as ws
from warpsim.frontends.errors import AssumptionWarning
from warpsim.frontends.waits.handovers import PhaseLog, with_arrivals
from warpsim.kernels.instruction import Instruction, Mbarrier
from warpsim.kernels.program import Kernel
from warpsim.kernels.statements import Conditional, Loop
from warpsim.kernels.traversal import walk

SOURCE = """
#include <cstdint>
#define INLINE __device__ inline
constexpr int TILE = 1024;
INLINE uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
INLINE void init(uint64_t* b, uint32_t n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared(b)), "r"(n));
}
INLINE void arrive(uint64_t* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared(b)) : "memory"); }
INLINE void expect(uint64_t* b, uint32_t n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared(b)), "r"(n) : "memory");
}
INLINE void announce(uint64_t* b, uint32_t n) {
  asm volatile("mbarrier.expect_tx.shared::cta.b64 [%0], %1;" :: "r"(shared(b)), "r"(n) : "memory");
}
INLINE void wait(uint64_t* b, uint32_t parity) {
  asm volatile("{.reg .pred P;\\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\\n@P bra DONE;\\nbra AGAIN; DONE: }"
               :: "r"(shared(b)), "r"(parity) : "memory");
}
INLINE uint32_t has_come(uint64_t* b, uint32_t parity) {
  uint32_t ok;
  asm volatile("{.reg .pred P;\\nmbarrier.try_wait.parity.shared::cta.b64 P, [%1], %2;\\nselp.b32 %0, 1, 0, P;}"
               : "=r"(ok) : "r"(shared(b)), "r"(parity) : "memory");
  return ok;
}
INLINE void bulk(void* to, const void* from, uint32_t n, uint64_t* b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(shared(to)), "l"(from), "r"(n), "r"(shared(b)) : "memory");
}
extern "C" __global__ void ring(const float* in, float* out, int tiles) {
  __shared__ alignas(128) float buffer[STAGES][TILE];
  __shared__ uint64_t full[STAGES], empty[STAGES];
  int warp = threadIdx.x / 32, consumers = blockDim.x / 32 - 1;
  if (threadIdx.x == 0) for (int i = 0; i < STAGES; ++i) { init(&full[i], 1); init(&empty[i], consumers); }
  __syncthreads();
  const float* mine = in + (size_t)blockIdx.x * tiles * TILE;
  if (warp == 0) {
    if (threadIdx.x == 0) {
      int stage = 0; uint32_t phase = FIRST;
      for (int t = 0; t < tiles; ++t) {
        wait(&empty[stage], phase);
#if COPY_FIRST == 2
        announce(&full[stage], TILE * 4);
        bulk(buffer[stage], mine + (size_t)t * TILE, TILE * 4, &full[stage]);
        arrive(&full[stage]);
#elif COPY_FIRST
        bulk(buffer[stage], mine + (size_t)t * TILE, TILE * 4, &full[stage]);
        expect(&full[stage], TILE * 4);
#else
        expect(&full[stage], TILE * 4);
        bulk(buffer[stage], mine + (size_t)t * TILE, TILE * 2, &full[stage]);
        bulk(buffer[stage] + TILE / 2, mine + (size_t)t * TILE + TILE / 2, TILE * 2, &full[stage]);
#endif
        if (++stage == STAGES) { stage = 0; phase ^= 1; }
      }
    }
  } else {
    float sum = 0;
    uint32_t ok = PEEKS ? has_come(&full[0], 0) : 0;
    int stage = 0; uint32_t phase = 0;
    if (FIRST == 0) for (int i = 0; i < STAGES; ++i) if (threadIdx.x % 32 == 0) arrive(&empty[i]);
    for (int t = 0; t < tiles; ++t) {
      if (!ok) wait(&full[stage], phase);
      for (int i = threadIdx.x - 32; i < TILE; i += consumers * 32) sum += buffer[stage][i];
      ok = PEEKS && t + 1 < tiles ? has_come(&full[(stage + 1) % STAGES], phase ^ (stage + 1 == STAGES)) : 0;
      __syncwarp();
      if ((HANDS_BACK & 1) && threadIdx.x % 32 == 0) arrive(&empty[stage]);
      if (HANDS_BACK & 2) sum *= 2;
      if ((HANDS_BACK & 2) && threadIdx.x % 32 == 1) arrive(&empty[stage]);
      if (++stage == STAGES) { stage = 0; phase ^= 1; }
    }
    out[(blockIdx.x * consumers + warp - 1) * 32 + threadIdx.x % 32] = sum;
  }
}
"""

TILES = 64
ONE_BLOCK = ws.Launch(blocks=1, block_warps=5)


@cache
def ring(stages=4, first=1, copy_first=0, hands_back=1, peeks=0, tiles=TILES):
    """Returns the kernel, and what its import has to say about waits."""
    options = [f"-DSTAGES={stages}", f"-DFIRST={first}", f"-DCOPY_FIRST={copy_first}", f"-DHANDS_BACK={hands_back}"]
    options.append(f"-DPEEKS={peeks}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = ws.kernels.from_cuda(SOURCE, "sm_90", launch=(132, 160), args={"tiles": tiles}, options=options, caches="none")
    waits = [str(each.message) for each in caught if issubclass(each.category, AssumptionWarning) and "wait" in str(each.message)]
    return kernel, waits


def instructions(kernel, role):
    return [one for _, one in walk(kernel.body) if isinstance(one, Instruction) and getattr(one, role) is not None]


@pytest.mark.parametrize("copy_first", [0, 1, 2])
def test_producer_and_consumers(compiler, copy_first):
    """The last copy of a stage arrives, or what announces the copies after them; four consumers hand a buffer back."""
    kernel, waits = ring(copy_first=copy_first)
    assert not waits
    full, empty = kernel.mbarriers
    assert (full.arrivals, full.ahead) == (1, 0)
    assert (empty.arrivals, empty.ahead) == (4, 4)
    filling = [one for one in instructions(kernel, "arrives") if one.arrives == full.name]
    assert {one.op for one in filling} == {"smem" if copy_first else "async_copy"}
    copies = [one for _, one in walk(kernel.body) if isinstance(one, Instruction) and one.op == "async_copy"]
    assert len(copies) == (1 if copy_first else 2) * len(filling)
    assert all(one.hints is None for one in copies)


def test_a_test_ahead_of_the_wait_is_no_wait(compiler):
    """Consumers ask for the next tile before they hand the buffer of this one back, and wait for it only if it has not come."""
    (kernel, waits), (plain, _) = ring(peeks=1), ring()
    assert not waits
    assert kernel.mbarriers == plain.mbarriers
    tests = [one for _, one in walk(kernel.body) if isinstance(one, Instruction) and "PHASECHK" in one.comment]
    assert len(tests) == len([one for one in tests if one.awaits]) + 2


def test_buffers_that_are_free_since_consumers_say_so(compiler):
    """They arrive at each barrier before their loop, so that no phase is complete at the begin."""
    kernel, waits = ring(first=0)
    assert not waits
    assert [(one.arrivals, one.ahead) for one in kernel.mbarriers] == [(1, 0), (4, 0)]


def test_stages_hide_the_latency_of_copies(compiler):
    """With one block and a memory without queues, a tile takes as long as its work, or its share of the latency."""
    cycles = {}
    for stages in (1, 2, 6):
        kernel, _ = ring(stages=stages)
        once, twice = (
            float(ws.simulate("h100", each, launch=ONE_BLOCK, sms=1, memory="fixed", replicates=1).cycles.mean())
            for each in (kernel, ring(stages=stages, tiles=2 * TILES)[0])
        )
        cycles[stages] = (twice - once) / TILES
    latency = ws.load_gpu("h100").memory.latency_cycles
    assert cycles[1] > latency
    assert cycles[2] < cycles[1] - 0.3 * latency
    assert cycles[6] < cycles[1] - 0.7 * latency


def test_warps_that_arrive_twice_in_a_phase(compiler):
    """Two threads of each consumer say that a buffer is free: the phase is complete once they have both."""
    once, twice = (ring(hands_back=way)[0] for way in (1, 3))
    assert twice.mbarriers == once.mbarriers
    assert sum(one.arrives == "mbarrier1" for one in instructions(twice, "arrives")) == 1


@pytest.mark.parametrize(("arrivals", "followed"), [(1, True), (2, False)])
def test_arrivals_and_waits_that_do_not_agree(arrivals, followed):
    """With two arrivals of a warp for each phase that the other one awaits, nobody knows which of them belong together."""
    full, empty = Mbarrier(name="full", arrivals=1), Mbarrier(name="empty", arrivals=1, ahead=4)
    copies = (Instruction("smem", awaits="empty"), *[Instruction("smem", arrives="full")] * arrivals)
    works = (Instruction("smem", awaits="full"), Instruction("smem", arrives="empty"))
    sides = [(Loop(body=body, trips=20),) for body in (copies, works)]
    body = (Conditional(warps=(0,), then=sides[0], orelse=sides[1]),)
    kernel = with_arrivals(Kernel(name="k", block_warps=2, mbarriers=(full, empty), body=body), {full: 4, empty: 4})
    assert (kernel is not None) == followed


def test_a_block_that_would_not_come_to_its_end(compiler):
    """Nobody hands a buffer back, so that the producer would wait forever: it waits for its own copies, as a warning says."""
    kernel, waits = ring(hands_back=0)
    assert not kernel.mbarriers and not instructions(kernel, "awaits")
    assert any("some warps wait at a barrier in shared memory here, and others do not" in each for each in waits)


class TestPhaseLog:
    ALL, FIRST = np.ones(2, bool), np.array([True, False])

    def log(self, *events):
        log = PhaseLog(2)
        for place, role, barrier, *operand in events:
            log.follow((0, place), role, self.FIRST if role in ("expect", "bulk") else self.ALL, barrier, *(operand or [-1]))
        return log

    def test_barriers_of_an_instruction_belong_together(self):
        log = self.log((1, "arrive", 0), (2, "arrive", 8), (3, "test", 0), (3, "test", 8), (4, "test", 64), (5, "arrive", 64))
        groups = sorted((sorted(index for _, index in places), sorted(barriers)) for places, barriers in log.groups())
        assert groups == [([1, 2, 3], [0, 8]), ([4, 5], [64])]

    def test_copies_that_are_announced_before_or_after_they_are_made(self):
        before = [(1, "expect", 0), (2, "bulk", 0), (3, "bulk", 0)]
        assert self.log(*before, *before).all_arrivals() == {(0, 3)}
        after = [(1, "bulk", 0), (2, "bulk", 0), (3, "expect", 0)]
        assert self.log(*after, *after).all_arrivals() == {(0, 3)}
        assert self.log((1, "expect", 0), (1, "expect", 8), (2, "bulk", 8), (2, "bulk", 0)).all_arrivals() == {(0, 2)}

    @pytest.mark.parametrize(
        ("operands", "ahead"),
        [((0x80000000, 0x80000000), 2), ((0, 0), 0), ((-1, -1), 0), ((0, 0x80000000), None), ((-1, 0), None)],
    )
    def test_the_first_test_says_whether_a_phase_is_complete_at_the_begin(self, operands, ahead):
        """Each first test of two barriers; later ones do not count."""
        events = [(1, "test", barrier, operand) for barrier, operand in zip((0, 8), operands, strict=True)]
        log = self.log(*events, (1, "test", 0, 0), (1, "test", 8, 0x80000000))
        assert log.ahead({0, 8}) == ahead

    def test_a_warp_that_arrives_twice_in_a_phase(self):
        """The latest arrival counts; a test in between says that it is another phase, as does another barrier."""
        assert self.log((1, "arrive", 0), (2, "arrive", 0)).all_arrivals() == {(0, 2)}
        assert self.log((1, "expect", 0), (2, "bulk", 0), (3, "arrive", 0), (4, "test", 8)).all_arrivals() == {(0, 3)}
        assert self.log((1, "arrive", 0), (2, "bulk", 0), (3, "expect", 0)).all_arrivals() == {(0, 3)}
        assert self.log((1, "expect", 0), (2, "bulk", 0), (3, "expect", 0), (4, "bulk", 0)).all_arrivals() == {(0, 4)}
        assert self.log((1, "arrive", 0), (2, "test", 8), (3, "arrive", 0)).all_arrivals() == {(0, 1), (0, 3)}
        assert self.log((1, "arrive", 0), (2, "arrive", 8)).all_arrivals() == {(0, 1), (0, 2)}

    def test_a_copy_goes_on_by_itself(self):
        log = self.log((1, "expect", 0))
        other = log.copy()
        other.follow((0, 2), "bulk", self.FIRST, 0, -1)
        other.follow((0, 3), "test", self.ALL, 8, 0)
        assert (log.all_arrivals(), log.tests, set(log.barriers)) == ({(0, 1)}, set(), {(0, 1)})
        assert (other.all_arrivals(), other.tests) == ({(0, 2)}, {(0, 3)})
