"""The compiled machine of docs/model.md: numpy arrays in, counters out. It imports numpy, numba and `warpsim.jit` only.

How to read the engine
======================

SMs affect each other through memory and through the supply of blocks only, and never sooner than after some hundred cycles. So
every SM runs alone for a *window* of that length, and then the requests of all SMs are served in order (conservative lookahead,
as in parallel discrete-event simulation). Inside a window the same holds for the schedulers of an SM, but for *shared* classes,
whose units belong to the SM. So each scheduler runs ahead until it needs something shared.

Read the files in this order:

* constants.py: enumerations, sizes, and the formats of numbers. machine.py and state.py: what is configured (Machine) and what
  changes (State), one field a line with its unit and range. allocation.py makes an idle machine.
* bits.py, places.py, rng.py: sets, waits in one word, places in arrays, chance. All other files use them.
* chip.py: `run`, the loop over windows. window.py: an SM in a window; `take_turns` is section 3 of docs/model.md.
  threads.py: several threads share the SMs of a chip.
* lanes.py: one number for each warp of a scheduler, in one vector register; lane_rules.py is for LLVM. schedulers.py: policies,
  as ranks of these warps. timetable.py: when a lane wakes, and what lies too far ahead for a lane.
* issue.py: an instruction issues, of any kind. units.py, registers.py, waiting.py, control.py: units, scoreboard, waits, branches
  and loops. picks.py, ahead.py: a scheduler picks, and runs ahead with plain instructions, which is most of the work.
  speculation.py: what lets the processor overlap its turns. stretches.py: many issues of a scheduler at once.
* hints.py, fetch.py, ports.py, ahead_with_options.py: options of today's cores. mbarriers.py: warps that wait for other warps of
  their block.
* blocks.py: launch, barriers, retirement. phases.py: where the first warps of an endless run are in their programs.
* exchange.py: what happens between windows. order.py, tandem.py: requests in order, and those between two stages of memory.
  memory.py: when a request returns. flights.py: limits of accesses in flight. echoes.py: what stands for SMs not simulated.
* attribution.py: where every warp-cycle goes (section 7). The timing code only says there what happens: `waits`, `issues`,
  `refuses`, `is_busy`, `holds`. cycle_sets.py: in which cycles of a window something refuses. accounts.py: what has been
  counted, for those outside.
* check.py: `verify` asserts that a state is consistent, `dump` prints an SM.

A load that misses L1 passes through these functions, from its issue to the next one of its warp:

* `take_turns` has the schedulers run ahead until one picks the load, whose unit is shared, and lets it issue in its turn.
* `execute` has it occupy its unit (`occupy`), and go out (`access`): it is in `State.outgoing`, and its register is UNKNOWN.
  `complete` finds that the next step needs it (`wait_for_step`): the warp is *pending*, and its lane says NEVER.
* At the end of the window `exchange` serves: `accept` sends the requests through stage 1, and `serve_dram` through stage 2 and
  the bus. Once the last request has been *served*, perhaps in a later window, it is known when the load returns.
* `note_all` tells the warp (`note_served`, then `go_on`, or `resolve` where it waits for more). Its wait is counted as a whole
  (`count_wait`), and `set_alarm` says in its lane, or in the set `far`, when it wakes.

Some habits that the compiler asks for:

* There are three kinds of index. `slot` is a warp slot of an SM, `lane` = slot // schedulers its place at its scheduler, and
  `index` = sm.first_index + slot its place on the chip (places.py). `s` is a scheduler of an SM, `step` an instruction of the
  program.
* `at(i)` says that an index is not negative, which saves the code that counts from the end of an array.
* Sets of warps, schedulers or cycles are bits of a uint64. numba makes a float of an int64 and a uint64, so that constants that
  meet sets are written as np.uint64.
* A wait is one word: its end, the step that causes it, and its name.
* Functions marked `inline` are compiled into their callers. Those marked `apart` are not: they have more use for the registers of
  the processor than for what their callers know, or they are called in many places. Nor are those marked `seldom`, which seldom
  run (warpsim/jit/decorators.py). Nothing allocates.
* A chip and program without options of today's cores have None for `reads`, `hints`, `addresses` and `mbarriers`. What serves an
  option takes such an array as an argument and returns at once if it is None: numba compiles nothing behind that test then. So
  there is an engine with options and one without, for 16, 32 and 64 lanes each. It is compiled when it is first used.
* The compiler knows that nobody writes to the machine during a run, and that a store to one field leaves all others alone
  (warpsim/jit/aliases.py). `run_plain` is compiled `apart`, so that it has the registers of the processor for itself.
* With NUMBA_DISABLE_JIT=1 all of it runs as plain Python, with the same results.
"""
