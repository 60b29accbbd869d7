"""The environment variables of launchers: a worker's rank, the world size, and the store."""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastdist.core.errors import RendezvousError

from ...core.folded_frames import folds
from .host_list import expand_first_host

# If the launcher sets no port for the store, the port is computed from the job's id, which is the
# same for all workers.
_FIRST_PORT, _PORT_COUNT = 20_000, 40_001
_TRUE, _FALSE = ("1", "true"), ("", "0", "false")


@dataclass(frozen=True)
class Assignment:
    """One worker's place in a job.

    This worker is `rank` of `world_size`, and `local_rank` on its machine. The store is at
    `store_host`, `store_port`. `launcher` names the source of the values. With `store_hosted` the
    launcher serves the store, and no rank binds its port. `incarnation` counts the restarts of this
    worker, alone or with the whole group. `round` counts only the restarts of the whole group. A
    round is identified by `run_id` and `round`. A `store_port` of 0 means any free port; only a job
    of one worker may use it.
    """

    launcher: str
    rank: int
    world_size: int
    local_rank: int
    store_host: str
    store_port: int
    store_hosted: bool
    run_id: str
    incarnation: int
    round: int

    @property
    def round_name(self) -> str:
        """A prefix for the store's keys, unique to this run and round."""
        return f"{self.run_id}.{self.round}"


@dataclass(frozen=True)
class _Launcher:
    """The variables of one launcher; the first launcher whose rank is set is used."""

    name: str
    rank: str
    world_size: tuple[str, ...]
    local_rank: tuple[str, ...]
    run_id: tuple[str, ...]
    # The host and port of the store, if MASTER_ADDR and MASTER_PORT are not set.
    host: Callable[[Mapping[str, str]], str | None]
    port: Callable[[Mapping[str, str]], int | None]
    # The command-line option that sets variables in all workers, as text.
    option: Callable[[list[str]], str] | None = None

    @property
    def sets_nothing(self) -> str:
        """The error text which says that this launcher does not set the missing variables."""
        return "no launcher sets any" if self is _NOBODY else f"{self.name} sets none"


@folds
def from_env(
    environment: Mapping[str, str] | None = None,
    *,
    rank: int | None = None,
    world_size: int | None = None,
) -> Assignment:
    """Return this worker's place from explicit arguments, FASTDIST_* or the launcher's variables.

    The launchers known, in this order: torchrun and `fastdist run`, Slurm, Open MPI and other PMIx,
    PMI (MPICH, hydra), and indexed Kubernetes jobs. FASTDIST_RANK, FASTDIST_WORLD_SIZE,
    FASTDIST_LOCAL_RANK, FASTDIST_STORE_HOST, FASTDIST_STORE_PORT, FASTDIST_RUN_ID and
    FASTDIST_RESTART_COUNT each take precedence over the launcher's variables.

    Raises  RendezvousError naming the variable, its value and the expected value

    Args:
        environment: The variables by name; this process's variables if None.
        rank: The rank of this worker, if the caller knows it.
        world_size: The number of workers, if the caller knows it.
    """
    environment = os.environ if environment is None else environment
    reader = _Reader(environment)
    launcher = next((one for one in _LAUNCHERS if environment.get(one.rank)), _NOBODY)
    if rank is None:
        rank = reader.number(
            "FASTDIST_RANK", launcher.rank, what="the rank of this worker", expected="0 or more"
        )
    if world_size is None:
        names = ("FASTDIST_WORLD_SIZE", *launcher.world_size)
        hides = reader.hides(launcher)
        world_size = reader.number(
            *names, what="the number of workers", expected="1 or more", hides=hides
        )
    require_rank(rank, world_size)
    store_host, store_port = _store_place(reader, launcher, world_size)
    return Assignment(
        launcher=launcher.name,
        rank=rank,
        world_size=world_size,
        local_rank=reader.number("FASTDIST_LOCAL_RANK", *launcher.local_rank, default=0),
        store_host=store_host,
        store_port=store_port,
        store_hosted=store_is_hosted(environment),
        run_id=reader.text("FASTDIST_RUN_ID", *launcher.run_id) or "none",
        incarnation=restart_count(environment),
        round=round_number(environment),
    )


def restart_count(environment: Mapping[str, str] = os.environ) -> int:
    """Return how often this worker was started again, with its group or alone."""
    reader = _Reader(environment)
    return reader.number("FASTDIST_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", default=0)


def round_number(environment: Mapping[str, str] = os.environ) -> int:
    """Return how often the whole group was started again.

    A worker that is restarted alone joins the current round.

    torchrun's count is used only if one store serves all rounds. Each torchrun node counts its own
    failures, so the counts of two nodes may differ. If rank 0 serves the store, the count is not
    needed, because each round has its own store.
    """
    if may_workers_return(environment):
        return 0
    if store_is_hosted(environment):
        return restart_count(environment)
    return _Reader(environment).number("FASTDIST_RESTART_COUNT", default=0)


def may_workers_return(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether a lost worker of this job is restarted while the others continue.

    Raises  RendezvousError if FASTDIST_ALLOW_RESTART has any value but `worker`

    Args:
        environment: The variables by name; this process's variables if None.
    """
    environment = os.environ if environment is None else environment
    given = environment.get("FASTDIST_ALLOW_RESTART", "")
    if given not in ("", "worker"):
        raise RendezvousError(
            f"FASTDIST_ALLOW_RESTART is {given!r}; expected worker, or not to be set"
        )
    return given == "worker"


def store_is_hosted(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the launcher serves the store, so that no rank binds its port."""
    return _Reader(environment).flag("FASTDIST_STORE_HOSTED")


def store_is_hosted_at(port: int, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the launcher hosts the store at this port.

    If the launcher's store has another port, the program means a separate store, such as one for
    process groups of some workers in addition to RPC of all workers.
    """
    own = environment.get("FASTDIST_STORE_PORT") or environment.get("MASTER_PORT") or str(port)
    return store_is_hosted(environment) and own == str(port)


def num_workers_here(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of workers on this machine; 1 if the launcher does not set it."""
    names = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
    counts = [environment.get(name, "") for name in names]
    return next((int(count) for count in counts if count.isdecimal()), 1)


def init_timeout_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return FASTDIST_INIT_TIMEOUT in seconds; None if it is not set; 0 means no limit.

    Raises  RendezvousError for a value that is not a number of seconds
    """
    text = environment.get("FASTDIST_INIT_TIMEOUT")
    return as_seconds("FASTDIST_INIT_TIMEOUT", text) if text else None


def as_seconds(what: str, text: str) -> float:
    """Return a number of seconds from a user's text.

    Raises  RendezvousError naming `what`, the source of the text
    """
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", text):
        raise RendezvousError(f"{what} is {text!r}; expected seconds, such as 120 (0: no limit)")
    return float(text)


def require_rank(rank: int, world_size: int) -> None:
    """Raise RendezvousError unless `rank` is below `world_size`, or `world_size` is 0."""
    if world_size < 0:
        raise RendezvousError(
            f"world size is {world_size}; expected 1 or more, or 0 for a dynamic group"
        )
    if rank < 0 or (world_size and rank >= world_size):
        most = f"0 to {world_size - 1} in a world of {world_size}" if world_size else "0 or more"
        raise RendezvousError(f"rank is {rank}; expected {most}")


class _Reader:
    """Reads the first variable that is set, and names it in errors about its value."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def text(self, *names: str) -> str | None:
        return next((self.environment[name] for name in names if self.environment.get(name)), None)

    def number(
        self,
        *names: str,
        default: int | None = None,
        what: str = "",
        expected: str = "",
        hides: str = "",
    ) -> int:
        for name in names:
            value = self.environment.get(name)
            if value:
                if not (value.isdecimal() and len(value) <= 9):
                    raise RendezvousError(f"{name} is {value!r}; expected a number, 0 or more")
                return int(value)
        if default is not None:
            return default
        variables = " or ".join(name for name in names if name)
        raise RendezvousError(
            f"{what} is not known: {variables} is not set; expected a number, {expected}. Start "
            f"the program with a launcher, such as `fastdist run -n 2 {_program()}`, torchrun, "
            "srun or mpirun; or set the variable; or give rank= and world_size= as arguments, and "
            f'init_method="tcp://HOST:PORT"{hides}'
        )

    def hides(self, launcher: _Launcher) -> str:
        """Return error text about other launchers whose variables are set, but ignored.

        For example, a rank that was set by hand in a Slurm step hides all of Slurm's variables.
        """
        others = [one for one in _LAUNCHERS if one.rank != launcher.rank]
        hidden = [one for one in others if self.environment.get(one.rank)]
        if launcher is _NOBODY or not hidden:
            return ""
        names = ", ".join((hidden[0].rank, *hidden[0].world_size))
        return (
            f"; {launcher.rank} is set, so the variables of {hidden[0].name} ({names}) are "
            f"ignored: unset {launcher.rank} to use them"
        )

    def port(self, name: str) -> int | None:
        value = self.environment.get(name)
        if not value:
            return None
        if not value.isdecimal() or not 0 < int(value) < 65_536:
            raise RendezvousError(f"{name} is {value!r}; expected a port, 1 to 65535")
        return int(value)

    def flag(self, name: str) -> bool:
        value = self.environment.get(name, "").lower()
        if value not in _TRUE + _FALSE:
            raise RendezvousError(f"{name} is {value!r}; expected 1 or 0")
        return value in _TRUE


def _program() -> str:
    """Return the name of the program that Python runs, for a command in an error."""
    # A module that `python -m` runs has a spec; its file is not the program to start.
    is_file = getattr(sys.modules.get("__main__"), "__spec__", None) is None
    name = os.path.basename((getattr(sys, "argv", None) or [""])[0])
    return name if is_file and name.endswith(".py") else "PROGRAM.py"


def _store_place(reader: _Reader, launcher: _Launcher, world_size: int) -> tuple[str, int]:
    """Return host and port of the store; a job of one worker does not need the variables.

    Raises  RendezvousError naming all missing variables
    """
    host = reader.text("FASTDIST_STORE_HOST", "MASTER_ADDR") or launcher.host(reader.environment)
    port = _store_port(reader, launcher)
    if host and port is not None:
        return host, port
    if world_size == 1 and not host and port is None and not store_is_hosted(reader.environment):
        return "127.0.0.1", 0
    missing = [name for name, value in (("ADDR", host), ("PORT", port)) if not value]
    names = [f"MASTER_{name}" for name in missing]
    meaning = {"ADDR": "the address of rank 0", "PORT": "a free port of its machine"}
    option = f" ({launcher.option(names)})" if launcher.option is not None else ""
    raise RendezvousError(
        f"cannot find the store: {' and '.join(names)} {'are' if names[1:] else 'is'} not set, and "
        f"{launcher.sets_nothing}; set {'them' if names[1:] else 'it'} on all workers, to "
        f"{' and '.join(meaning[name] for name in missing)}{option}, or give all workers the same "
        f'init_method="tcp://HOST:PORT" in their options{reader.hides(launcher)}'
    )


def _store_port(reader: _Reader, launcher: _Launcher) -> int | None:
    own = reader.port("FASTDIST_STORE_PORT")
    if own is not None:
        return own
    master = reader.port("MASTER_PORT")
    if master is None:
        return launcher.port(reader.environment)
    # If torchrun's agent serves its own store on MASTER_PORT, this store uses the next port.
    is_taken = reader.flag("TORCHELASTIC_USE_AGENT_STORE")
    if is_taken and master == 65_535:
        raise RendezvousError("MASTER_PORT is 65535, torchrun's own; set FASTDIST_STORE_PORT")
    return master + is_taken


def slurm_host(environment: Mapping[str, str]) -> str | None:
    """Return the first host of a Slurm step, or of its job; None outside Slurm.

    Raises  RendezvousError for an invalid list of hosts
    """
    for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        if nodes := environment.get(name):
            return expand_first_host(nodes, name)
    return None


def _host_of_lonely_mpi(environment: Mapping[str, str]) -> str | None:
    """Return the loopback address if all workers of an MPI job run on this machine."""
    sizes = environment.get("OMPI_COMM_WORLD_SIZE"), environment.get("OMPI_COMM_WORLD_LOCAL_SIZE")
    return "127.0.0.1" if sizes[0] and sizes[0] == sizes[1] else None


def _port_from(*names: str) -> Callable[[Mapping[str, str]], int | None]:
    """Return a function that computes a port from these variables, if the first one is set."""

    def port(environment: Mapping[str, str]) -> int | None:
        if not environment.get(names[0]):
            return None
        job = ".".join(environment.get(name, "") for name in names)
        return _FIRST_PORT + zlib.crc32(job.encode()) % _PORT_COUNT

    return port


# The port of a Slurm step's store, from the ids of the job and the step; all tasks have these ids.
slurm_port = _port_from("SLURM_JOB_ID", "SLURM_STEP_ID")


def _by_x(names: list[str]) -> str:
    return f"mpirun: {' '.join(f'-x {name}=...' for name in names)}"


def _by_genv(names: list[str]) -> str:
    return f"mpiexec of MPICH or Intel MPI: {' '.join(f'-genv {name} ...' for name in names)}"


def _by_service(names: list[str]) -> str:
    return "the pod of index 0, as in the manifest that `fastdist manifest jobset` prints"


def _unknown(environment: Mapping[str, str]) -> None:
    return None


_LAUNCHERS = (
    _Launcher(
        name="torchrun",
        rank="RANK",
        world_size=("WORLD_SIZE",),
        local_rank=("LOCAL_RANK",),
        run_id=("TORCHELASTIC_RUN_ID",),
        host=_unknown,
        port=_unknown,
    ),
    _Launcher(
        name="Slurm",
        rank="SLURM_PROCID",
        world_size=("SLURM_NTASKS",),
        local_rank=("SLURM_LOCALID",),
        run_id=("SLURM_JOB_ID",),
        host=slurm_host,
        port=slurm_port,
    ),
    _Launcher(
        name="Open MPI",
        rank="OMPI_COMM_WORLD_RANK",
        world_size=("OMPI_COMM_WORLD_SIZE",),
        local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
        run_id=("PMIX_NAMESPACE",),
        host=_host_of_lonely_mpi,
        port=_port_from("PMIX_NAMESPACE"),
        option=_by_x,
    ),
    _Launcher(
        name="PMIx",
        rank="PMIX_RANK",
        world_size=("PMIX_SIZE", "WORLD_SIZE"),
        local_rank=("PMIX_LOCAL_RANK",),
        run_id=("PMIX_NAMESPACE",),
        host=_unknown,
        port=_port_from("PMIX_NAMESPACE"),
        option=_by_x,
    ),
    _Launcher(
        name="PMI",
        rank="PMI_RANK",
        world_size=("PMI_SIZE",),
        local_rank=("MPI_LOCALRANKID",),
        run_id=("PMI_ID",),
        host=_unknown,
        port=_unknown,
        option=_by_genv,
    ),
    _Launcher(
        name="Kubernetes",
        rank="JOB_COMPLETION_INDEX",
        world_size=("WORLD_SIZE",),
        local_rank=(),
        run_id=("JOB_NAME",),
        host=_unknown,
        port=_unknown,
        option=_by_service,
    ),
)
_NOBODY = _Launcher("no launcher", "RANK", ("WORLD_SIZE",), (), (), _unknown, _unknown)
