"""A Slurm of two nodes on this machine, with all its files in one folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.kept_port import KeptPort

COMMANDS: Final = (
    *("munged", "slurmctld", "slurmd"),
    *("srun", "sbatch", "scancel", "scontrol", "sinfo", "squeue"),
)
# Both nodes are this machine. The store is on the first node. Its name is the number of the address
# 127.0.0.1, since this resolves everywhere, and Slurm accepts it as different from `localhost`.
NODES: Final = ("0x7f000001", "node2")
_STARTS_WITHIN_S = 60.0


def path_of(command: str) -> str | None:
    """Return the path of a command; commands that are servers may be in root's directories."""
    return shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Slurm:
    """Slurm's servers, from `start` to `close`. With `environment`, Slurm's commands find them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = [KeptPort() for _ in range(2 + len(NODES))]

    def start(self) -> None:
        """Start munge and Slurm, and wait until the nodes are idle."""
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        (self.folder / "slurm.conf").write_text(self._settings())
        for name in ("state", *NODES):
            (self.folder / name).mkdir()
        files = ("key-file", "munge.key"), ("socket", "munge.socket"), ("pid-file", "munged.pid")
        files += ("log-file", "munged.log"), ("seed-file", "munged.seed")
        words = [f"--{option}={self.folder / file}" for option, file in files]
        self._start("munged", "--foreground", "--force", *words)
        _wait_until((self.folder / "munge.socket").exists, "munged")
        self._start("slurmctld", "-D")
        for node in NODES:
            self._start("slurmd", "-D", "-N", node)
        _wait_until(self._is_idle, "slurmd")

    def _start(self, command: str, *words: str) -> None:
        path = path_of(command)
        assert path is not None
        with open(self.folder / f"{command}-{len(self._processes)}.out", "wb") as out:
            self._processes.append(
                subprocess.Popen(
                    [path, *words],
                    env={**os.environ, **self.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )
            )

    def _is_idle(self) -> bool:
        done = self.run("sinfo", "-h", "-N", "-o", "%T")
        return done.stdout.split() == ["idle"] * len(NODES)

    def run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one of Slurm's commands."""
        path = path_of(command)
        assert path is not None
        return subprocess.run(
            [path, *words],
            env={**os.environ, **self.environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def _settings(self) -> str:
        user, folder = os.environ.get("USER") or "root", self.folder
        control, *nodes = [port.number for port in self._ports[1:]]
        lines = [
            "ClusterName=fastdist",
            f"SlurmctldHost={socket.gethostname()}(127.0.0.1)",
            f"SlurmctldPort={control}",
            f"SlurmUser={user}\nSlurmdUser={user}",
            "AuthType=auth/munge\nCredType=cred/munge",
            f"AuthInfo=socket={folder / 'munge.socket'}",
            f"StateSaveLocation={folder / 'state'}\nSlurmdSpoolDir={folder}/%n",
            f"SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd.%n.pid",
            f"SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.%n.log",
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none",
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core",
            # Let nodes claim more cores than this machine has.
            "SlurmdParameters=config_overrides\nReturnToService=2\nKillWait=10\nMailProg=/bin/true",
            *(
                f"NodeName={name} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 "
                f"Port={port} CPUs=4"
                for name, port in zip(NODES, nodes)
            ),
            "PartitionName=main Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8",
        ]
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """End the servers, the nodes first."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for port in self._ports:
            port.close()


def _wait_until(holds: Callable[[], bool], what: str) -> None:
    until, pause = time.monotonic() + _STARTS_WITHIN_S, threading.Event()
    while not holds():
        assert time.monotonic() < until, f"{what} did not start"
        pause.wait(0.2)
