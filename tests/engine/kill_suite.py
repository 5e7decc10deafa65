"""The kill suite: many small checks of the engine, each of which raises where a mutant differs. See mutation.py.

Programs are drawn, and run on the reference machine, once, before any mutant (`prepare`). `checks` must be called where the
engine has been imported anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


def drawn(number: int, strategy: st.SearchStrategy[Any]) -> list[Any]:
    """Returns reproducible random values, of which hypothesis repeats some; each once."""
    from tests.support.strategies import examples

    found: dict[str, Any] = {}

    @examples(number)
    @given(strategy)
    def collect(value: Any) -> None:
        found[repr(value)] = value

    collect()
    return list(found.values())


def prepare() -> tuple[dict[str, tuple[Any, Any]], list[Any]]:
    """Returns name -> a case and its outcome on the reference machine; and further cases, with cycles at which to stop."""
    from tests.engine.directed_cases import DIRECTED
    from tests.engine.test_against_reference import expected_of
    from tests.engine.test_edges import EDGES
    from tests.support import strategies
    from tests.support.cases import POLICIES, Case
    from tests.support.strategies import cases

    chosen: dict[str, Case] = {}
    for number, (name, case) in enumerate(DIRECTED.items()):
        chosen[name] = replace(case, options=case.options | {"scheduler": POLICIES[number % len(POLICIES)]})
    chosen |= EDGES
    for kind, (draws, strategy) in {
        "random": (25, cases()),
        "queue": (25, cases(memory="queue")),
        "arithmetic": (25, strategies.arithmetic()),
        "long runs": (15, strategies.long_runs()),
        "stores among loads": (20, strategies.with_stores_among_loads()),
        "hints": (20, strategies.with_hints()),
        "echoes": (15, strategies.with_echoes()),
        "fetch": (15, strategies.with_fetch()),
        "mbarriers": (25, strategies.with_mbarriers()),
        "all options": (15, strategies.with_all_options_of_a_core()),
    }.items():
        chosen |= {f"{kind} {number}": case for number, case in enumerate(drawn(draws, strategy))}
    stops = st.lists(st.integers(1, 90), min_size=1, max_size=6)
    stopped = drawn(25, st.tuples(cases(), stops)) + drawn(10, st.tuples(strategies.with_mbarriers(), stops))
    return {name: (case, expected_of(case)) for name, case in chosen.items()}, stopped


def checks(prepared: tuple[dict[str, tuple[Any, Any]], list[Any]]) -> dict[str, Callable[[], None]]:
    """Returns name -> check."""
    from tests.engine import (
        test_check,
        test_edges,
        test_fetch,
        test_hints,
        test_launch,
        test_mbarriers,
        test_parts,
        test_reach,
        test_register_ports,
        test_rng,
        test_slices,
        test_state,
        test_stretches,
        test_unit_queues,
        test_writes,
    )
    from tests.engine.test_against_reference import assert_same
    from tests.engine.test_arbitration import test_engine_and_twin_agree_where_every_unit_is_contended as contended
    from tests.simulation.test_trace import TestRandomPrograms as Traces
    from tests.support.cases import POLICIES

    compared, stopped = prepared
    found: dict[str, Callable[[], Any]] = {name: partial(assert_same, *pair) for name, pair in compared.items()}
    traces = Traces()

    def at_any_length(name: str, patch: pytest.MonkeyPatch) -> None:
        test_stretches.same_at_any_length(patch, *compared[name])

    for name in compared:
        if name.startswith(("long runs", "arithmetic")):
            found[f"{name} at any length"] = partial(patched, at_any_length, name)
    for number, (case, steps) in enumerate(stopped):
        consistent: Any = test_check.test_every_program_is_consistent_at_every_cycle
        found[f"consistent {number}"] = partial(consistent.hypothesis.inner_test, case, steps)
        for name in ("test_sums_over_lines_schedulers_bins_and_sms", "test_states_over_time_are_those_of_the_reference_machine"):
            found[f"{name} {number}"] = partial(getattr(traces, name).hypothesis.inner_test, traces, case)
    for module, tests in ((test_parts, PARTS), (test_edges, OF_EDGES), (test_state, OF_STATE)):
        for name, values in tests.items():
            for value in values:
                found[f"{name} {value}"] = partial(getattr(module, name), *value)
    for name in ("test_a_grid_begins_after_the_cost_of_its_launch", "test_blocks_that_wait_for_their_start_keep_the_grid_alive"):
        found[name] = getattr(test_launch, name)
    for x, y, cycles in (("R19", "R21", 5), ("R18", "R21", 6), ("R18", "R20", 7)):
        found[f"Listing 1, {x} {y}"] = partial(test_register_ports.test_listing_1, x, y, cycles)
    found["an evicted read"] = test_register_ports.test_another_warp_evicts_what_was_to_be_reused
    found["lanes"] = partial(test_parts.test_lanes, 16)
    found["words"] = test_rng.test_splitmix64_gives_the_published_words
    for number, policy in enumerate(POLICIES):
        found[f"contended, {policy}"] = partial(contended, 2 ** (number % 4), policy)
    for name in ("a_load", "a_block_that_starts", "limits_of_loads_in_flight", "a_barrier_that_opens", "a_result_and_a_gap"):
        found[f"{name} far ahead"] = partial(getattr(test_reach, f"test_{name}_far_ahead"), 1023)
    found["schedulers far ahead"] = partial(
        test_reach.test_schedulers_of_two_sms_that_are_busy_for_different_times_far_ahead, 3076
    )
    for warmup, width in ((0, 1), (7, 2), (40, 1)):
        found[f"register ports {warmup}"] = partial(test_register_ports.test_windows_and_pairs, warmup, width)
    for name in test_slices.SLICES:
        found[f"pools forget, {name}"] = partial(patched, test_slices.test_pools_forget, name)
        found[f"lists grow, {name}"] = partial(patched, test_slices.test_lists_grow_where_they_are_full, name)
    found["a queue of one entry"] = test_unit_queues.test_a_queue_of_one_entry_refuses_its_own_scheduler_alone
    for width, policy in ((1, "gty"), (2, "random")):
        found[f"fetch, {policy}"] = partial(test_fetch.test_blocks_windows_and_ports, policy, width)
    for name in (
        "a_line_on_its_way_is_not_replaced",
        "a_loop_that_fits_misses_once_and_jumps_refill_the_buffer",
        "a_jump_ends_a_full_buffer",
        "a_branch_over_one_instruction_ends_a_full_buffer",
        "a_taken_branch_jumps",
    ):
        found[name] = getattr(test_fetch, f"test_{name}")
    found["a full counter"] = test_hints.test_a_counter_counts_63_at_most
    found["a group that waits for a counter"] = test_hints.test_a_group_that_waits_for_a_counter_of_results_is_not_stalled
    for at_most in (1, 2, 3):
        found[f"a wait for all but {at_most}"] = partial(test_hints.test_a_wait_for_all_but_some_of_loads_that_queue, at_most)
    for width in (1, 2):
        found[f"results that are soon there, {width}"] = partial(test_fetch.test_results_that_are_soon_there, 3, 3, width)
    for name in (
        "a_warp_waits_until_the_result_of_the_last_arrival",
        "an_arrival_waits_for_the_copies_before_it",
        "a_phase_needs_all_its_arrivals",
        "blocks_that_follow_begin_anew",
        "copies_of_a_queue_complete_phases_in_any_order",
    ):
        found[name] = getattr(test_mbarriers, f"test_{name}")
    found["a gap that ends with the phase"] = partial(test_mbarriers.test_a_gap_that_ends_with_the_phase_is_the_wait, 9)
    deadlocks = test_mbarriers.TestDeadlocks()
    for name in (
        "a_barrier_and_an_mbarrier",
        "a_phase_that_has_begun_lacks_one_arrival",
        "a_warp_that_runs_too_far_ahead",
        "more_arrivals_than_a_phase_has",
    ):
        found[name] = getattr(deadlocks, f"test_{name}")
    found["full buffers"] = partial(test_fetch.test_a_buffer_stays_full_once_all_lines_are_there, 6)
    found["loads among stores"] = test_writes.test_stores_delay_the_loads_among_them
    found["ports that hold"] = test_register_ports.test_the_stall_is_a_dispatch_stall
    found["ports that hold many warps"] = test_register_ports.test_warps_that_wait_long_while_the_ports_hold_others
    found["streams of echoes"] = test_slices.test_echoes_have_the_streams_of_the_reference
    return {name: partial(quietly, check) for name, check in found.items()}


PARTS: dict[str, list[tuple[Any, ...]]] = {
    "test_sets": [()],
    "test_sets_up_to_a_member": [(31,), (63,)],
    "test_below": [(0,), (1,), (31,), (63,), (64,)],
    "test_waits_as_words": [()],
    "test_register_ports_as_times_of_lanes": [()],
    "test_numbers_as_lanes": [(0x0004_0300_8001_FFFF,)],
    "test_times_of_lanes": [()],
    "test_heaps_of_return_times": [()],
    "test_requests_are_due_by_arrival_then_by_entry": [()],
    "test_the_parts_of_a_window_are_about_as_many_as_the_requests": [(c, r) for c in (1, 7, 512) for r in (1, 2, 511, 8192)],
    "test_the_present_load_after_a_pause": [(pause,) for pause in range(1, 18)],
    "test_extra_transactions_delay_an_access": [()],
    "test_measured_latency_lies_between_the_two_rows_around_the_load": [()],
    "test_bins_of_latencies": [()],
}
"""Test of parts -> the arguments with which it is called."""


OF_EDGES: dict[str, list[tuple[Any, ...]]] = {
    "test_of_two_loads_that_return_together_the_first_one_is_waited_for": [()],
    "test_of_a_store_and_a_load_that_return_together_the_load_is_waited_for": [()],
    "test_of_deadlocks_in_one_cycle_that_of_the_first_sm_is_reported": [()],
    "test_a_trace_that_is_full_is_left_as_it_is": [(7,)],
}


OF_STATE: dict[str, list[tuple[Any, ...]]] = {
    "test_lanes_move_on_by_any_number_of_cycles": [(distance,) for distance in (1021, 1022, 1023, 3066)],
    "test_schedulers_have_as_many_lanes_as_their_warps_need": [(16, 16), (17, 32), (32, 32), (33, 64)],
    "test_the_sum_of_latencies_is_that_of_the_histogram": [()],
    "test_sums_are_those_of_what_they_count": [()],
    "test_room_of_a_pool": [(512, 1 << 15), (513, 1 << 14), (1025, 1 << 13), (1 << 17, 256)],
    "test_an_epoch_has_room_for_ten_transitions": [()],
    "test_transitions_are_known_by_epoch": [(step,) for step in range(1, 9)],
}


def patched(check: Callable[[str, pytest.MonkeyPatch], None], name: str) -> None:
    """Runs a check that patches modules, and undoes that."""
    with pytest.MonkeyPatch.context() as patch:
        check(name, patch)


def quietly(check: Callable[[], Any]) -> None:
    """Runs a check; random numbers wrap around on purpose."""
    with np.errstate(over="ignore"):
        check()
