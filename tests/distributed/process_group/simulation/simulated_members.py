"""Members of a job with real groups, but simulated threads, sockets, memory, store and clock."""

from __future__ import annotations

import logging
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.distributed import distributed_c10d as dist  # noqa: F401
from fastdist.distributed.links import (
    alarm,
    between,
    hub,
    joining,
    machine,
    mail,
    members,
    movement,
    segment,
    sums,
)
from fastdist.distributed.links import group as links_group
from fastdist.distributed.process_group import init, subgroups, world
from fastdist.distributed.sockets import NoSecurity, waiting
from fastdist.distributed.store import HashStore, Store
from tests.distributed.process_group.simulation import simulated_sync as sync
from tests.distributed.process_group.simulation.simulated_mail import Network, SimContext
from tests.distributed.rpc.simulation.simulated_world import (
    Crashed,
    NoClock,
    Process,
    World,
    end_threads,
    here,
    worlds,
)

_SIMULATED = (
    "fastdist.distributed.links",
    "fastdist.distributed.process_group",
    "fastdist.distributed.store",
)
# Sizes from which another algorithm is used, reduced so that small arrays use all algorithms. The
# tables of six members are larger than a ring.
_SIZES = {
    segment: {"SMALL_BYTES": 256, "BLOCK_BYTES": 168},
    sums: {
        "SMALL_BYTES": 256,
        "BLOCK_BYTES": 168,
        "_MOST_SMALL_BYTES": 256,
        "_MOST_BETWEEN_BYTES": 128,
    },
    movement: {"SMALL_BYTES": 256, "_MOST_BETWEEN_BYTES": 448},
    between: {"PIECE_BYTES": 256},
    mail: {"PIECE_BYTES": 256, "EAGER_BYTES": 128, "MOST_EAGER": 4},
}
BOARD_BYTES = 2048


class Member(Process):
    """One life of one rank."""

    def __init__(self, job: Job, rank: int, life: int, machine: str, program: Any) -> None:
        super().__init__(job.world, f"m{rank}.{life}")
        self.job, self.rank, self.life, self.machine = job, rank, life, machine
        # A process may have the pid of an earlier process; their start numbers differ.
        self.pid = 100 + rank if job.reuses_pids else 100 + rank + 100 * life
        self.start_number = len(job.members)
        self.hubs: dict[int, hub.Hub] = {}
        self.hubs_lock = sync.SimRLock()
        self.groups = world.World()
        self.store = SimStore(job.store, self)
        self.descriptors: dict[int, tuple[str, mmap.mmap]] = {}
        # The process is killed at this step; a step is a point where other processes may run.
        self.dies_at = 0
        self.steps = 0
        self.was_cut = self.was_late = self.was_frozen = False
        self.ended = False
        self._program = program
        self.world.soon(self, self._main)

    def run(self, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Run a function in this process; ignore errors while a killed process unwinds."""
        try:
            super().run(function, arguments)
        except Exception:
            if not (self.dead or self.world.is_over):
                raise

    def entered(self) -> None:
        """Switch the modules' per-process state to this process."""
        hub._hubs, hub._hubs_lock = self.hubs, self.hubs_lock  # type: ignore[assignment]
        _here.world = self.groups

    def step(self) -> None:
        """Count a point at which the process may be killed."""
        if self.dead:
            raise Crashed
        self.steps += 1
        if self.steps == self.dies_at:
            self.crash()
            raise Crashed

    def freeze(self, seconds: float) -> None:
        """Stop the process for some seconds."""
        self.was_frozen = True
        super().freeze(seconds)

    def pause(self, seconds: float) -> None:
        """Delay the process."""
        sync.pause(seconds)

    def _main(self) -> None:
        self._program(self)
        self.ended = True


class Job:
    """Members started by one launcher, in a separate world."""

    def __init__(self, seed: int, *, reuses_pids: bool = False) -> None:
        end_job()
        jobs[:] = [self]
        self.world = World(seed, sync.clock)
        worlds[:] = [self.world]
        self.reuses_pids = reuses_pids
        self.network = Network()
        self.world.process_ended = self._process_ended
        self.store = HashStore()
        self.members: list[Member] = []
        self.on_death: Callable[[Member], None] = _ignore
        # The probability that a member fails to map the memory of another one on its machine.
        self.maps_fail = 0.0

    def start(self, rank: int, machine: str, program: Any) -> Member:
        """Start a life of a rank."""
        life = sum(member.rank == rank for member in self.members)
        member = Member(self, rank, life, machine, program)
        self.members.append(member)
        return member

    def present(self, rank: int) -> Member:
        """Return the latest life of a rank."""
        return next(one for one in reversed(self.members) if one.rank == rank)

    def living(self) -> list[Member]:
        """Return the members that have not been killed."""
        return [one for one in self.members if not one.dead]

    def of_pid(self, pid: int) -> Member:
        """Return the latest process with this pid."""
        return next(one for one in reversed(self.members) if one.pid == pid)

    def _process_ended(self, ended: Process) -> None:
        assert isinstance(ended, Member)
        self.network.process_ended(ended)
        ended.descriptors.clear()
        for member in self.living():
            # Each member's descriptor for the ended process becomes readable.
            sync.wake(member)
        self.on_death(ended)


def _ignore(member: Member) -> None:
    del member


jobs: list[Job] = []
_here = SimpleNamespace(world=None)
unexpected: list[str] = []


def end_job() -> None:
    """Stop the current job."""
    while jobs:
        jobs.pop().world.end()
        worlds.clear()
        sync.readable.clear()


class SimStore(Store):
    """One process's handle of the store, which the launcher hosts."""

    def __init__(self, shared: HashStore, member: Member) -> None:
        super().__init__(timedelta(seconds=30))
        self._shared, self._member = shared, member

    def _ask(self, op: Any, arguments: list[bytes], timeout: Any = None) -> list[bytes]:
        self._member.step()
        sync.pause(self._member.world.rng.random() * 0.002)
        answer = self._shared._ask(op, arguments, self._seconds(timeout))
        self._member.step()
        return answer

    @property
    def job_secret(self) -> None:
        return None

    def watch(self, prefix: str) -> Any:
        raise AssertionError("nobody watches the store of a simulated job")

    def close(self) -> None:
        pass


class SimOs:
    """A replacement for `os` in the simulated modules."""

    def urandom(self, size: int) -> bytes:
        return worlds[-1].rng.randbytes(size)

    def getpid(self) -> int:
        current = worlds[-1].current if worlds else None
        return current.pid if isinstance(current, Member) else os.getpid()

    def pidfd_open(self, pid: int) -> int:
        other = jobs[-1].of_pid(pid)
        if other.dead:
            raise ProcessLookupError(pid)
        return sync.new_fd(lambda: other.dead)

    def close(self, descriptor: int) -> None:
        sync.readable.pop(descriptor, None)
        _me().descriptors.pop(descriptor, None)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _me() -> Member:
    member = here()
    assert isinstance(member, Member)
    return member


class SimRecord:
    """Creates records of simulated processes, and reads them."""

    decode = staticmethod(members.Record.decode)

    def __call__(self, **facts: Any) -> members.Record:
        me = _me()
        facts.update(pid=me.pid, process_start=me.start_number, boot_id=me.machine)
        facts.update(pid_namespace="pids", network_namespace="net", user=1, host=me.machine)
        record = members.Record(**facts)
        assert asdict(record)
        return record


class _Memory(mmap.mmap):
    """A mapping shared by all members here, so close() must not unmap it."""

    def close(self) -> None:
        pass


def _create(count: int, size: int, board: int) -> tuple[int, mmap.mmap]:
    me, mapping = _me(), _Memory(-1, segment.segment_bytes(count, size, board))
    descriptor = sync.new_fd(bool)
    me.descriptors[descriptor] = me.machine, mapping
    return descriptor, mapping


def _open_other(pid: int, descriptor: int, count: int, size: int, board: int) -> mmap.mmap:
    job = jobs[-1]
    _me().step()
    if job.maps_fail and job.world.rng.random() < job.maps_fail:
        raise segment.SegmentError("it is in another container")
    other = job.of_pid(pid)
    if other.dead or descriptor not in other.descriptors:
        raise segment.SegmentError(f"the memory of process {pid} cannot be opened: it has ended")
    where, mapping = other.descriptors[descriptor]
    assert where == _me().machine
    assert len(mapping) == segment.segment_bytes(count, size, board)
    return mapping


def _process_start(pid: int) -> int:
    return jobs[-1].of_pid(pid).start_number


def _knock(address: str, until: float) -> bool:
    sync.pause(0.001)
    return address in jobs[-1].network.listeners


class _Unexpected(logging.Handler):
    """Collects logged errors."""

    def emit(self, record: logging.LogRecord) -> None:
        unexpected.append(record.getMessage())


def _patch_modules(patch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(_SIMULATED):
            if getattr(module, "time", None) is time:
                patch.setattr(module, "time", sync.clock)
            if getattr(module, "threading", None) is threading:
                patch.setattr(module, "threading", sync.SimThreading())
            if getattr(module, "here", None) is world.here and module is not world:
                patch.setattr(module, "here", _here)
    patch.setattr(world, "here", _here)
    assert init.here is subgroups.here is _here  # type: ignore[attr-defined]
    for module, sizes in _SIZES.items():
        for name, value in sizes.items():
            patch.setattr(module, name, value)


@contextmanager
def simulated_machines() -> Iterator[None]:
    """Run groups created in the block on simulated members."""
    logger, handler = logging.getLogger("fastdist"), _Unexpected(logging.ERROR)
    outside = hub._hubs, hub._hubs_lock
    with pytest.MonkeyPatch.context() as patch:
        _patch_modules(patch)
        patch.setattr(waiting, "time", NoClock())
        simulated_os = SimOs()
        for module in (hub, joining, links_group):
            patch.setattr(module, "os", simulated_os)
        patch.setattr(hub, "Context", lambda **_: SimContext(jobs[-1].network))
        for module in (alarm, hub):
            patch.setattr(module, "Doorbell", sync.SimBell)
        patch.setattr(hub, "knock", _knock)
        patch.setattr(hub, "select", sync.SimSelect())
        patch.setattr(hub, "atexit", SimpleNamespace(register=bool, unregister=bool))
        patch.setattr(init, "atexit", SimpleNamespace(register=bool, unregister=bool))
        patch.setattr(hub, "boot_id", lambda: _me().machine)
        patch.setattr(hub, "network_namespace", lambda: "net")
        patch.setattr(hub, "pid_namespace", lambda: "pids")
        patch.setattr(hub, "process_start", _process_start)
        patch.setattr(machine, "futex", sync.SimFutex())
        patch.setattr(machine, "fence", sync.SimFence())
        patch.setattr(machine, "SpinPolicy", sync.SimSpin)
        patch.setattr(joining, "Record", SimRecord())
        patch.setattr(joining, "worker_address", lambda *_, **__: "127.0.0.1")
        patch.setattr(joining, "worker_security", lambda *_, **__: NoSecurity())
        patch.setattr(joining, "choose_seal", lambda *_, **__: "")
        patch.setattr(joining, "_why_no_memory", str)
        patch.setattr(segment, "create", _create)
        patch.setattr(segment, "open_other", _open_other)
        patch.setattr(segment, "board_bytes", lambda: BOARD_BYTES)
        logging.disable(logging.WARNING)
        logger.addHandler(handler)
        try:
            yield
        finally:
            end_job()
            end_threads()
            hub._hubs, hub._hubs_lock = outside
            logger.removeHandler(handler)
            logging.disable(logging.NOTSET)
