"""Runs sweeps in processes that are killed. A process of its own, which forks: a child begins with everything compiled.

    python -m tests.support.killed_sweeps PLAN.toml OUT.zarr kill TIMES SEED
    python -m tests.support.killed_sweeps PLAN.toml OUT.zarr together NUMBER

`kill` kills TIMES sweeps of two threads, one after the other, and prints how many tiles were done at each death. Every fourth
dies within a tenth of a second of its start, the others within 50 ms of having done up to two tiles. `together` runs sweeps of
one thread at once, and prints their exit codes.
"""

import os
import random
import signal
import sys
import time

from warpsim.store.status import DONE, TILES
from warpsim.sweeps.local import sweep
from warpsim.sweeps.plan import Plan


def child(plan, path, workers):
    """A sweep in a process of its own: its number, and a pipe that gets a byte at the start and for each tile."""
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


def kill(plan, path, life, chance):
    pid, progress = child(plan, path, 2)
    if life % 4 == 0:
        time.sleep(chance.uniform(0, 0.1))
    else:
        for _ in range(chance.randint(1, 3)):
            os.read(progress, 1)
        time.sleep(chance.uniform(0, 0.05))
    os.kill(pid, signal.SIGKILL)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL, "it ended before it was killed"
    os.close(progress)


def done(path):
    folder = os.path.join(path, TILES, DONE)
    names = os.listdir(folder) if os.path.exists(folder) else []
    return sum(name.startswith("c.") and not name.endswith(".partial") for name in names)


def main(file, path, what, *numbers):
    plan = Plan.from_toml(file)
    sweep(plan, f"{path}.warm", tiles=[0])  # loads and compiles all that a sweep needs
    if what == "together":
        pids = [child(plan, path, 1)[0] for _ in range(int(numbers[0]))]
        print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
        return
    times, seed = map(int, numbers)
    chance = random.Random(seed)
    for life in range(times):
        kill(plan, path, life, chance)
        print(done(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
