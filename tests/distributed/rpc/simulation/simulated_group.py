"""Workers with real agents, but simulated threads, sockets, store and clock."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from operator import getitem, setitem
from typing import Any, Literal

import pytest

from fastdist.concurrency.future import Future
from fastdist.core.errors import RpcError
from fastdist.distributed import rpc
from fastdist.distributed.arena import borrower
from fastdist.distributed.arena.layout import TABLE_BYTES
from fastdist.distributed.arena.lender import Lender
from fastdist.distributed.autograd import container
from fastdist.distributed.autograd import engine as dist_engine
from fastdist.distributed.pipe import pipe
from fastdist.distributed.rpc import agent, arena_offers, handlers, zmq_agent
from fastdist.distributed.rpc.workers import joining, record, tree
from fastdist.distributed.rpc.workers import worker as lives
from fastdist.distributed.rpc.workers import workers as directory
from fastdist.distributed.rpc.workers.directory import StoreDirectory, machine_label
from fastdist.distributed.rpc.workers.group import GIVEN_UP
from fastdist.distributed.rpc.workers.group import Group as Members
from fastdist.distributed.rpc.workers.record import Record
from fastdist.distributed.rpc.workers.session import Event
from fastdist.distributed.rpc.zmq_agent import ZmqAgent
from fastdist.distributed.sockets import NoSecurity, waiting
from fastdist.distributed.store import HashStore, PrefixStore, Store
from fastdist.graph import forward_grad
from tests.distributed.rpc.simulation import simulated_threads as threads
from tests.distributed.rpc.simulation.simulated_network import Network, SimBell, SimContext
from tests.distributed.rpc.simulation.simulated_threads import clock
from tests.distributed.rpc.simulation.simulated_world import (
    NoClock,
    Process,
    World,
    end_threads,
    worlds,
)

# static: one life per rank; restarts: lost workers may rejoin; dynamic: members join and leave.
Kind = Literal["static", "restarts", "dynamic"]

_tangents = importlib.import_module("fastdist.distributed.autograd.tangent_store")
# Per-process state: a module's variable, and how to create its value for a process.
_OWN: tuple[tuple[dict[str, Any], str, Callable[[], Any]], ...] = (
    (vars(agent), "_agent", lambda: None),
    (vars(agent), "_id_offset", int),
    (vars(handlers), "_handlers", lambda: {**_handlers_of_rooms}),
    (vars(container), "_container", container.DistAutogradContainer),
    (vars(dist_engine), "_engine", dist_engine.DistEngine),
    (vars(_tangents), "_store", _tangents.TangentStore),
    (vars(forward_grad), "_stack", list),
    (vars(forward_grad), "_by_global_id", dict),
    (vars(borrower), "_arenas", dict),
)
_MODULES, _NAMES = [module for module, _, _ in _OWN], [name for _, name, _ in _OWN]
_BORROWED = _NAMES.index("_arenas")
_handlers_of_rooms: dict[int, handlers.Handler] = {}
# Modules of these packages use the simulated clock and events.
_SIMULATED = (
    "fastdist.distributed.arena",
    "fastdist.distributed.rpc",
    "fastdist.distributed.autograd",
    "fastdist.distributed.pipe",
)
# The size of a process's arena, and the smallest buffer that is lent from it.
ARENA_BYTES = TABLE_BYTES + (4 << 20)
LENT_FROM_BYTES = 1 << 10
# How long a leaving worker waits for its calls, and how long its process lives afterwards.
LEAVES_WITHIN_S = 10.0
LINGERS_S = 0.6


class SharedStore(Store):
    """One process's handle of the group's store, which exists outside the simulated workers."""

    def __init__(self, shared: HashStore) -> None:
        super().__init__(timedelta(seconds=1))
        self._shared = shared

    def _ask(self, op: Any, arguments: list[bytes], timeout: Any = None) -> list[bytes]:
        return self._shared._ask(op, arguments, timeout)

    @property
    def job_secret(self) -> None:
        return None

    def watch(self, prefix: str) -> Any:
        raise AssertionError("nobody watches the store of a simulated group")

    def close(self) -> None:
        pass


class Worker(Process):
    """One life of one rank."""

    def __init__(self, group: Group, rank: int, life: int) -> None:
        super().__init__(group.world, f"w{rank}.{life}")
        self.rank = rank
        self.life = life
        # A new life may use the address of an earlier life, and get messages meant for that life.
        self.address = f"sim://w{rank}" if group.has_fixed_addresses else f"sim://{self.name}"
        self.began = group.world.now
        self.left = False
        self.own = [make() for _, _, make in _OWN]
        self.has_borrowed: list[borrower.BorrowedArena] = []
        self._group = group
        self.run(self._begin, ())

    def entered(self) -> None:
        """Switch to this process's singletons, and save those of the process that ran before."""
        self._group.swap_in(self)

    def crash(self) -> None:
        """End immediately; borrowers keep the memory that this process had lent."""
        super().crash()
        self.let_go_of_memory()

    def let_go_of_memory(self) -> None:
        """Release shared memory as the end of a process does."""
        for borrowed in self.has_borrowed:
            borrowed.forget_all()
        self.own[_BORROWED].clear()
        arena = self.agent._arenas._arena
        if arena is not None:
            arena.close()

    def num_lent(self) -> int:
        """Return how many pieces of this process's memory are lent, or offered in a message."""
        arena = self.agent._arenas._arena
        return 0 if arena is None else arena.usage()[0]

    @property
    def is_out(self) -> bool:
        """Return whether this worker has ended, is leaving, or was given up by the others."""
        return self.dead or self.left or self.agent.workers.given_up is not None

    def gave_up(self, other: Worker) -> bool:
        """Return whether this worker has declared this life of `other` lost."""
        known = self.agent.workers.known(other.rank)
        return known is not None and known.is_dead and known.record == other.agent.me

    def leave(self, *, graceful: bool = False) -> None:
        """Shut down immediately or, with `graceful`, after running calls have ended."""
        if not self.dead and not self.left and not self.frozen:
            self.left = True
            if graceful:
                self.world.soon(self, self._leave_in_order)
            else:
                self.world.soon(self, rpc.shutdown, False)
                self.world.at(self.world.now + LINGERS_S, None, self.crash)

    def _leave_in_order(self) -> None:
        try:
            rpc.shutdown(timeout=LEAVES_WITHIN_S)
        except RpcError:
            logging.getLogger(__name__).info("who leaves was held up", exc_info=True)
        self.world.at(self.world.now + LINGERS_S, None, self.crash)

    def _begin(self) -> None:
        kind = self._group.kind
        agent.run_start_hooks(self.rank, takes_members_later=kind != "static")
        self.agent = ZmqAgent(
            SharedStore(self._group.store),
            f"w{self.rank}",
            self.rank,
            0 if kind == "dynamic" else self._group.size,
            rpc.TensorPipeRpcBackendOptions(
                switch_interval=None, init_timeout=1.0, restarts=kind == "restarts"
            ),
            host="nowhere",
            security=NoSecurity(),
        )
        agent.set_current_agent(self.agent)
        self.agent.leaving.barrier._fan_out = self._group.fan_out
        self._group.by_incarnation[self.agent.me.incarnation] = self
        if kind != "restarts" or self.life > 0:
            self.agent.start()


class Group:
    """Workers of one group, in a separate world."""

    def __init__(
        self,
        seed: int,
        size: int = 3,
        *,
        kind: Kind = "static",
        on_one_host: bool = True,
        has_fixed_addresses: bool = False,
        has_arenas: bool = False,
    ) -> None:
        _end_world()
        groups[:] = [self]
        self.world = World(seed, clock)
        worlds[:] = [self.world]
        # Random numbers of the simulated system, independent of the random numbers for faults.
        self.numbers = random.Random(seed)
        self.network = Network(self.world)
        self.kind, self.size = kind, size
        self.has_fixed_addresses = has_fixed_addresses
        self.has_arenas = has_arenas
        self._fan_out = tree.FAN_OUT
        self._outside = [module[name] for module, name, _ in _OWN]
        self._entered: Worker | None = None
        self.store = HashStore()
        self.on_one_host = on_one_host
        self.by_incarnation: dict[int, Worker] = {}
        # All lives, in the order of their starts.
        self.workers = [Worker(self, rank, 0) for rank in range(size)]
        if kind != "dynamic":
            self._let_founders_meet()

    @property
    def fan_out(self) -> int:
        """Return how many children a worker has in the barrier's tree, including future members."""
        return self._fan_out

    @fan_out.setter
    def fan_out(self, fan_out: int) -> None:
        self._fan_out = fan_out
        for worker in self.workers:
            worker.agent.leaving.barrier._fan_out = fan_out

    def _let_founders_meet(self) -> None:
        records = [worker.agent.me for worker in self.workers]
        for one in records:
            StoreDirectory(self.store).claim(one)
        for worker in self.workers:
            worker.run(self._meet, (worker, records))

    def _meet(self, worker: Worker, records: Sequence[Record]) -> None:
        group = worker.agent.group
        group._known, group.knows_all = {one.rank: one for one in records}, True
        group._on_machine.clear()
        for one in records:
            group._on_machine[machine_label(one)] += 1
        worker.agent.workers._take_in(records)
        if self.kind == "restarts":
            worker.agent.start()

    def start(self, rank: int) -> Worker:
        """Start another life of a rank, or a new rank."""
        life = sum(worker.rank == rank for worker in self.workers)
        worker = Worker(self, rank, life)
        self.workers.append(worker)
        return worker

    def start_alone(self, rank: int) -> None:
        """Start a life of a rank in a static group; this life is not connected to the others."""
        worker = self.start(rank)
        records = [one.agent.me for one in self.workers[: self.size]]
        records[rank] = worker.agent.me
        worker.agent.workers._take_in(records)

    def present(self, rank: int) -> Worker:
        """Return the latest life of a rank."""
        return next(worker for worker in reversed(self.workers) if worker.rank == rank)

    def ranks(self) -> list[int]:
        """Return all ranks so far."""
        return sorted({worker.rank for worker in self.workers})

    def leaves_its_place(self, worker: Worker) -> bool:
        """Return whether a rank is free: its worker has ended, or is frozen and was given up."""
        given_up = PrefixStore(GIVEN_UP, self.store)
        return worker.dead or bool(
            worker.frozen and given_up.check([str(worker.agent.me.incarnation)])
        )

    def living(self) -> list[Worker]:
        """Return the lives that have not ended, including frozen and leaving ones."""
        return [worker for worker in self.workers if not worker.dead]

    def tell_that_process_ended(self, ended: Worker) -> None:
        """Notify the survivors that a process of their host has ended."""
        for worker in self.living():
            known = worker.agent.workers.known(ended.rank)
            if known is not None and known.is_met and worker is not ended:
                progress = worker.agent.client.progress
                worker.run(progress.post, (known._step, Event.PROCESS_ENDED))

    def swap_in(self, worker: Worker | None) -> None:
        """Switch the modules' per-process state to a worker's; None restores the original state."""
        before, self._entered = self._entered, worker
        if before is not None:
            before.own = [*map(getitem, _MODULES, _NAMES)]
        # This runs at each event; a loop would take a tenth of a simulation's time.
        deque(map(setitem, _MODULES, _NAMES, self._outside if worker is None else worker.own), 0)


groups: list[Group] = []


def end_group() -> None:
    """Stop the current group, if any, and end all its threads."""
    _end_world()
    end_threads()


def forget_memory() -> None:
    """Collect garbage that holds shared memory; repeat, since finalizers may leave more garbage."""
    for _ in range(3):
        gc.collect()


def _end_world() -> None:
    while groups:
        group = groups[-1]
        group.world.end()
        group.swap_in(None)
        for worker in group.living():
            worker.let_go_of_memory()
        groups.pop()
        worlds.clear()


def here() -> Worker:
    """Return the worker whose turn it is."""
    worker = groups[-1].world.current
    assert isinstance(worker, Worker)
    return worker


def _join_static(
    store: Store, me: Record, timeout_s: float, frozen_s: float | None, answers: joining.Answers
) -> Members:
    group = groups[-1]
    if group.kind == "restarts" and here().life > 0:
        assert frozen_s is not None
        return joining._come_back_static(store, me, frozen_s, answers)
    # The other members are added when all have joined.
    return Members(store, me, [me], restarts=frozen_s is not None)


def _leaves_its_place(store: Store, earlier: Record, *_: object) -> bool:
    return groups[-1].leaves_its_place(groups[-1].by_incarnation[earlier.incarnation])


def _make_record(*arguments: Any, **more: Any) -> Record:
    group = groups[-1]
    boot_id = "" if group.on_one_host else here().name
    # A worker can map a peer's memory only if both share a pid namespace.
    pid_namespace = "simulated" if group.has_arenas else ""
    return replace(Record(*arguments, **more), pid_namespace=pid_namespace, boot_id=boot_id)


_open_borrowed = borrower.open_borrowed


def _open_borrowed_here(*arguments: Any) -> borrower.BorrowedArena:
    arena = _open_borrowed(*arguments)
    here().has_borrowed.append(arena)
    return arena


def _lives(one: Record) -> bool:
    return not groups[-1].by_incarnation[one.incarnation].dead


def _level_ended(global_id: int) -> None:
    _tangents.tangent_store().end(global_id)


class SimOs:
    """A replacement for `os` in modules that use the random numbers of `os`."""

    def urandom(self, size: int) -> bytes:
        return groups[-1].numbers.randbytes(size)

    def __getattr__(self, name: str) -> Any:
        if name == "pidfd_open":
            raise AttributeError("the process table of this machine has no simulated process")
        return getattr(os, name)


class _Unexpected(logging.Handler):
    """Collects unexpected errors that were only logged."""

    def emit(self, told: logging.LogRecord) -> None:
        if told.exc_info is not None and told.exc_info[1] is not None:
            unexpected.append(f"{told.getMessage()}: {told.exc_info[1]!r}")


unexpected: list[str] = []


@contextmanager
def _no_warnings() -> Iterator[None]:
    logger, handler = logging.getLogger("fastdist"), _Unexpected(logging.ERROR)
    logging.disable(logging.WARNING)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = True
        logger.removeHandler(handler)
        logging.disable(logging.NOTSET)


@contextmanager
def simulated_machine() -> Iterator[None]:
    """Run all agents created in the block in a simulated group, and suppress warnings."""
    with pytest.MonkeyPatch.context() as patch, _no_warnings():
        for name, module in list(sys.modules.items()):
            if name.startswith(_SIMULATED):
                if getattr(module, "time", None) is time:
                    patch.setattr(module, "time", clock)
                if getattr(module, "threading", None) is threading:
                    patch.setattr(module, "threading", threads.SimThreading())
        patch.setattr(waiting, "time", NoClock())
        patch.setattr(agent, "os", SimOs())
        patch.setattr(record, "os", SimOs())
        patch.setattr(lives, "os", SimOs())
        # Iteration over sets of workers must depend on the seed, not on memory addresses.
        patch.setattr(lives.Worker, "__hash__", lambda self: hash(self.record.incarnation))
        patch.setattr(arena_offers, "os", SimOs())
        patch.setattr(arena_offers, "arena_size", lambda: ARENA_BYTES)
        patch.setattr(arena_offers, "Lender", partial(Lender, least_bytes=LENT_FROM_BYTES))
        patch.setattr(arena_offers, "_lives", _lives)
        patch.setattr(borrower, "open_borrowed", _open_borrowed_here)
        patch.setattr(Future, "_wait_until_done", threads.wait_until_done)
        patch.setattr(zmq_agent, "Context", lambda *_, **__: SimContext(groups[-1].network, here()))
        patch.setattr(zmq_agent, "ThreadPool", threads.SimPool)
        patch.setattr(zmq_agent, "join_static", _join_static)
        patch.setattr(zmq_agent, "Record", _make_record)
        patch.setattr(zmq_agent, "NoticeSender", threads.SimNoticeSender)
        patch.setattr(joining, "leaves_its_place", _leaves_its_place)
        patch.setattr(zmq_agent, "Progress", threads.SimProgress)
        patch.setattr(pipe, "Doorbell", SimBell)
        _handlers_of_rooms.update(handlers._handlers)
        patch.setattr(forward_grad, "end_callbacks", [_level_ended])
        patch.setattr(directory, "silence_hooks", [])
        # The garbage collector need not visit older objects after each world.
        gc.freeze()
        try:
            yield
        finally:
            gc.unfreeze()
