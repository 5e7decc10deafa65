"""A real Slurm cluster of one node for tests: runs munged, slurmctld and slurmd on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")

SEARCHED = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin"
"""Folders in which programs are looked for: daemons are in one that may not be in PATH."""

CONF = """\
ClusterName=one
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,defer,sched_min_interval=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
ReturnToService=2
KillWait=5
NodeName={host} CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1 GraceTime=20 MaxTime=60
PartitionName=high Nodes={host} PriorityTier=9 PreemptMode=OFF MaxTime=60
"""


def missing() -> str:
    """Returns the reason why a cluster cannot be started, or "". Installs the packages of Debian if possible."""
    if os.geteuid() != 0:
        return "Slurm's daemons are started as root"
    if all(shutil.which(name, path=SEARCHED) for name in DAEMONS):
        return ""
    if shutil.which("apt-get") is None:
        return "slurm-wlm and munge are not installed, and there is no apt-get"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "slurm-wlm", "munge"]):
        done = subprocess.run(["apt-get", *command], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"apt-get {command[0]} failed: {done.stderr.strip()[-300:]}"
    return ""


@contextmanager
def slurm_node(folder: Path) -> Iterator[dict[str, str]]:
    """Starts the daemons, and stops them at the end. Yields the environment in which the commands of Slurm find them.

    Args:
        folder: folder for their files. Its path must be short, because the paths of sockets have a length limit.
    """
    host = socket.gethostname().split(".")[0]
    machine = {"cpus": os.cpu_count() or 1, "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20}
    for name in ("state", "spool"):
        (folder / name).mkdir()
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=host, folder=folder, ports=_free_ports(2), **machine))
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    environment = {**os.environ, "PATH": SEARCHED, "SLURM_CONF": str(conf)}
    munge = [f"--{what}={folder}/munge.{what.removesuffix('-file')}" for what in ("socket", "key-file", "pid-file", "log-file")]
    commands = [
        ["munged", "--foreground", "--force", f"--seed-file={folder}/munge.seed", *munge],
        ["slurmctld", "-D", "-c"],
        ["slurmd", "-D", "-N", host],
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / f"{command[0]}.out").open("wb") as out:
                started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            if command[0] == "munged":
                _wait(folder, started, lambda: (folder / "munge.socket").exists())
        _wait(folder, started, lambda: "idle" in _output(["sinfo", "--noheader", "--format=%T"], environment))
        yield environment
    finally:
        subprocess.run(["scancel", f"--user={os.geteuid()}"], env=environment, capture_output=True, check=False)
        for daemon in reversed(started):
            daemon.terminate()
            daemon.wait()


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports


def _output(command: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout


def _wait(folder: Path, daemons: list[subprocess.Popen[bytes]], ready) -> None:
    for _ in range(300):
        if ready():
            return
        for daemon in daemons:
            if daemon.poll() is not None:
                log = (folder / f"{daemon.args[0]}.out").read_text(errors="replace")
                raise RuntimeError(f"{daemon.args[0]} ended: {log[-2000:]}")
        time.sleep(0.2)
    logs = "\n".join(path.read_text(errors="replace")[-1000:] for path in folder.glob("*.out"))
    raise RuntimeError(f"Slurm did not start: {logs}")
