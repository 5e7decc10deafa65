"""Runs sweeps in child processes and kills them. This program compiles everything first; its children are forks.

    python -m tests.support.killed_sweeps PLAN.toml OUT.zarr kill TIMES SEED
    python -m tests.support.killed_sweeps PLAN.toml OUT.zarr together NUMBER

`kill` starts and kills TIMES sweeps of two threads in succession, and prints the number of finished tiles after each. Every
fourth sweep is killed within 0.1 s of its start, the others within 50 ms after finishing up to two tiles. `together` runs
NUMBER sweeps of one thread at the same time, and prints their exit codes.
"""

import os
import random
import signal
import sys
import time

from warpsim.store.status import DONE, TILES
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan


def start_sweep(plan, path, workers):
    """Starts a sweep in a child process. Returns its process id, and a pipe that gets a byte at the start and for each tile."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            sweep(plan, path, workers=workers, progress=lambda _: os.write(write, b"."))
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(write)
    return pid, read


def start_and_kill(plan, path, attempt, rng):
    pid, progress = start_sweep(plan, path, 2)
    if attempt % 4 == 0:
        time.sleep(rng.uniform(0, 0.1))
    else:
        for _ in range(rng.randint(1, 3)):
            os.read(progress, 1)
        time.sleep(rng.uniform(0, 0.05))
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL, "the sweep ended before it was killed"
    os.close(progress)


def count_done(path):
    folder = os.path.join(path, TILES, DONE)
    names = os.listdir(folder) if os.path.exists(folder) else []
    return sum(name.startswith("c.") and not name.endswith(".partial") for name in names)


def main(file, path, mode, *numbers):
    plan = Plan.from_toml(file)
    sweep(plan, f"{path}.warm", tiles=[0])  # loads and compiles everything that a sweep needs
    if mode == "together":
        pids = [start_sweep(plan, path, 1)[0] for _ in range(int(numbers[0]))]
        print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
        return
    times, seed = map(int, numbers)
    rng = random.Random(seed)
    for attempt in range(times):
        start_and_kill(plan, path, attempt, rng)
        print(count_done(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
