"""Two simulated machines: namespaces with separate networks, process ids and boot ids."""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.launch.conftest import Run

ADDRESSES = ("10.77.0.1", "10.77.0.2")
# All processes end with the first one, and nothing keeps a name outside the namespaces.
_APART = "unshare --net --mount --pid --fork --kill-child --mount-proc"
_AS_ROOT = [*_APART.split(), "--user", "--map-root-user"]
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@functools.cache
def why_not() -> str | None:
    """Return why simulated machines cannot be created here, or None if they can."""
    trial = f"ip link add cable type veth peer name other && mount --bind /dev/null {_BOOT_ID}"
    try:
        done = subprocess.run(
            [*_AS_ROOT, "bash", "-c", trial],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except OSError as error:
        return f"namespaces: {error.strerror}: {error.filename}"
    told = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return f"namespaces: none can be made here ({told[-1]})" if done.returncode else None


class TwoHosts:
    """Two shells, each on a separate simulated machine, and a cable between them.

    `runs` collect the shells' output; a shell runs each command line that it receives.
    """

    def __init__(self) -> None:
        pipes = [os.pipe() for _ in range(6)]
        (in_0, self._in_0), (out_0, to_out_0), (err_0, to_err_0) = pipes[:3]
        (in_1, self._in_1), (out_1, to_out_1), (err_1, to_err_1) = pipes[3:]
        process = subprocess.Popen(
            [*_AS_ROOT, "bash"],
            stdin=in_0,
            stdout=to_out_0,
            stderr=to_err_0,
            pass_fds=[in_1, to_out_1, to_err_1],
        )
        self.runs = [Run(process, out_0, err_0), Run(process, out_1, err_1)]
        self.tell(0, f"{_APART} bash <&{in_1} >&{to_out_1} 2>&{to_err_1} &")
        self.tell(0, f"exec {in_1}<&- {to_out_1}>&- {to_err_1}>&-")
        for end in (in_0, to_out_0, to_err_0, in_1, to_out_1, to_err_1):
            os.close(end)

    def lay_cable(self, folder: Path, boots: Sequence[str] = ("boot-0", "boot-1")) -> None:
        """Connect the two shells' namespaces; the boot id of each is written to a file in `folder`.

        With different boot ids the shells are on two machines, else in two containers of one.
        """
        for host, boot in enumerate(boots):
            boot_id = folder / f"boot{host}"
            boot_id.write_text(f"{boot}\n")
            mount = f"mount --bind {shlex.quote(str(boot_id))} {_BOOT_ID}"
            self.tell(host, f"{mount} && ip link set lo up && echo up")
            self.runs[host].wait_for("up")
        self.tell(0, "ip link add cable type veth peer name cable netns $!")
        self.tell(0, "echo laid")
        self.runs[0].wait_for("laid")
        for host, address in enumerate(ADDRESSES):
            self.tell(host, f"ip addr add {address}/24 dev cable && ip link set cable up")

    def tell(self, host: int, command: str) -> None:
        """Make a shell run a command line."""
        os.write((self._in_0, self._in_1)[host], command.encode() + b"\n")

    def set_cable(self, state: str) -> None:
        """Pull the cable (`down`), or plug it in (`up`)."""
        self.tell(0, f"ip link set cable {state}")

    def limit_cable(self, rate: str = "") -> None:
        """Limit the rate in each direction, such as 20mbit; an empty rate means no limit."""
        for host in range(len(ADDRESSES)):
            limit = f"replace dev cable root tbf rate {rate} burst 32kb latency 50ms"
            command = f"tc qdisc {limit if rate else 'del dev cable root'}"
            self.tell(host, f"{command} && echo limit.{rate}.")
            self.runs[host].wait_for(f"limit.{rate}.")

    def close(self) -> None:
        """End all processes in the namespaces."""
        for end in (self._in_0, self._in_1):
            os.close(end)
        for run in self.runs:
            run.close()
