"""A Ray cluster of one node for several drivers, since starting a cluster takes seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import fastdist
from bench.kept_port import KeptPort

# No tokens in the user's home, no usage reports, and long timeouts for a busy machine.
SETTINGS: Final = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "100",
}
_STARTS_WITHIN_S: Final = 110.0


class RayCluster:
    """The processes of Ray, from `start` to `close`; drivers get `environment`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, KeptPort()
        self.environment = {**SETTINGS, "RAY_ADDRESS": f"127.0.0.1:{self._port.number}"}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the cluster, and wait until it accepts drivers."""
        words = ["start", "--head", "--block", f"--port={self._port.number}", "--num-cpus=4"]
        words += ["--node-ip-address=127.0.0.1", "--include-dashboard=false"]
        # Without this, drivers that name no cluster would find this one, even after it has ended.
        words += [f"--temp-dir={self._folder}/ray"]
        root = str(Path(fastdist.__file__).parents[1])
        with open(self._folder / "out", "wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", *words],
                env={**os.environ, **SETTINGS, "PYTHONPATH": root},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,
            )
        until, pause = time.monotonic() + _STARTS_WITHIN_S, threading.Event()
        while b"Ray runtime started" not in (text := (self._folder / "out").read_bytes()):
            assert self._process.poll() is None and time.monotonic() < until, text.decode()
            pause.wait(0.2)

    def close(self) -> None:
        """End all processes of the cluster."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        self._port.close()
