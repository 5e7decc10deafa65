"""Which counters of a report a replay takes as inputs. What is not listed here is predicted."""

from __future__ import annotations

from warpsim.profiles.launch import ProfiledLaunch
from warpsim.profiles.traffic import READERS, counts_of_sectors, hit_rate_of_l1, known_between_caches, l2_clock, passes_of_l1
from warpsim.profiles.updates import updates


def inputs_of(launch: ProfiledLaunch) -> tuple[str, ...]:
    """Returns what a replay of a launch takes from its report, in words, beside the machine code and the launch itself."""
    found = ["executions by instruction", "DRAM bytes", "clocks of SMs and memory"]
    if counted := counts_of_sectors(launch):
        found.append(f"sectors {counted}")
    if hit_rate_of_l1(launch) is not None:
        found.append("L1's hit rate of loads")
    if known_between_caches(launch):
        found.append("sectors between L1 and L2")
    if launch.get("lts__t_requests_srcunit_tex_op_read.sum"):
        found.append("lines that L1 asked L2 for")
    if launch.get(READERS):
        found.append("SMs that a read of L2 serves")
    if launch.get("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"):
        found.append("local sectors and their misses")
    if any(one.counts.get("memory_l1_wavefronts_shared") for one in launch.code):
        found.append("wavefronts of shared memory")
    if passes_of_l1(launch):
        found.append("passes of L1 in sum")
    if l2_clock(launch):
        found.append("L2's clock")
    if launch.get("lts__t_sectors.max") and updates(launch).addresses is not None:
        found.append("sectors of L2's busiest slice")
    return tuple(found)
