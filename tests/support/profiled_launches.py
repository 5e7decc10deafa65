"""A launch as a report would state it: a loop of four trips that loads, multiplies and stores, with its machine code."""

import struct

from warpsim.profiles.launch import ProfiledInstruction, ProfiledLaunch

NONE = 7

WARPS, TRIPS = 8 * 200, 4

_LINES = (  # text, stall, write counter, wait mask, executions of a warp, counters for each execution
    ("S2R R0, SR_TID.X", 1, 0, 0, 1, {}),
    ("MOV R2, 0x4", 4, NONE, 0, 1, {}),
    ("IMAD.WIDE R4, R0, R2, c[0x0][0x160]", 5, NONE, 0b1, 1, {}),
    ("LDG.E R6, [R4.64]", 2, 1, 0, TRIPS, {"memory_l2_theoretical_sectors_global": 4, "memory_l1_tag_requests_global": 1}),
    ("FMUL R6, R6, 3", 4, NONE, 0b10, TRIPS, {}),
    ("STG.E [R4.64], R6", 1, NONE, 0, TRIPS, {"memory_l2_theoretical_sectors_global": 4, "memory_l1_tag_requests_global": 1}),
    ("@P0 BRA 0x1030", 5, NONE, 0, TRIPS, {}),
    ("EXIT", 5, NONE, 0, 1, {}),
    ("BRA 0x1080", 0, NONE, 0, 0, {}),
)

METRICS = {
    "device__attribute_compute_capability_major": 8,
    "device__attribute_compute_capability_minor": 6,
    "device__attribute_display_name": "NVIDIA A40",
    "device__attribute_multiprocessor_count": 84,
    "device__attribute_total_memory": 48e9,
    "launch__registers_per_thread": 16,
    "launch__block_size": 256,
    "launch__grid_size": 200,
    "launch__occupancy_limit_warps": 6,
    "launch__occupancy_limit_blocks": 16,
    "gpc__cycles_elapsed.max": 9000,
    "gpc__cycles_elapsed.avg.per_second": 1.3e9,
    "gpu__time_duration.sum": 6900,
    "dram__bytes_read.sum": WARPS * TRIPS * 128 / 2,
    "dram__bytes_write.sum": 0,
    "dram__bytes.sum.peak_sustained": 96,
    "dram__cycles_elapsed.avg.per_second": 7.2e9,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": WARPS * TRIPS * 4,
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": 0,
    "sm__warps_active.avg.per_cycle_active": 14.0,
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 9.0,
    "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio": 1.0,
}


def launch(metrics=None, without=(), texts=None):
    """The launch; some metrics changed or left out, some instructions with another text."""
    code, words = [], b""
    for index, (text, stall, write, wait, times, counts) in enumerate(_LINES):
        executed = times * WARPS
        counters = {name: value * executed for name, value in counts.items()}
        if executed:
            share = (TRIPS - 1) / TRIPS if text.startswith("@P0") else 1
            counters |= {"thread_inst_executed": 32 * executed, "thread_inst_executed_true": 32 * executed * share}
        text = (texts or {}).get(index, text)
        code.append(ProfiledInstruction(16 * index, text, ("kernel.cu", 10 + index), executed, counters))
        words += struct.pack("<QQ", 0, (stall | NONE << 8 | write << 5 | wait << 11) << 41)
    known = {name: value for name, value in (METRICS | (metrics or {})).items() if name not in without}
    return ProfiledLaunch("r.ncu-rep", 0, "_Z6kernelPf", "kernel(float*)", known, tuple(code), words, 0x1000)
