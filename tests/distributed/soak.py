"""The load of the soak test: random calls of everything that users do, including mistakes."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import fastdist
import fastdist.distributed.autograd as da
from fastdist.concurrency.future import Future
from fastdist.core.errors import (
    ContextReleasedError,
    FastdistError,
    GraphError,
    ShutdownIncomplete,
)
from fastdist.distributed import rpc

WORLD_SIZE = 4


def init() -> None:
    rpc.init_rpc(
        f"w{os.environ['RANK']}",
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(rpc_timeout=20.0),
    )


def leave(lost: list[str]) -> float:
    """Leave the group; require that the error names the lost workers, and no other worker."""
    began = time.monotonic()
    told = ""
    try:
        rpc.shutdown(timeout=30)
    except ShutdownIncomplete as error:
        told = str(error)
        assert "has shut down without" in told, told
    for name in (f"w{rank}" for rank in range(WORLD_SIZE)):
        assert (f"{name!r} (rank " in told) == (name in lost), told
    return time.monotonic() - began


# ---- what is called -----------------------------------------------------------------------------


class CannotPickle(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("a and b are not in args")


class BadText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class BadReduce(Exception):
    def __reduce__(self) -> Any:
        raise ZeroDivisionError("cannot be reduced")


class Counted:
    def __init__(self) -> None:
        self.count = 0

    def add(self, n: int) -> int:
        self.count += n
        return self.count


def echo(value: Any) -> Any:
    return value


def hold(seconds: float) -> str:
    threading.Event().wait(seconds)
    return "held"


def fail(kind: str) -> None:
    if kind == "exit":
        raise SystemExit(3)
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "generator":
        raise GeneratorExit
    if kind == "pickle":
        raise CannotPickle(1, 2)
    if kind == "text":
        raise BadText
    if kind == "reduce":
        raise BadReduce
    if kind == "stop":
        raise StopIteration(5)
    raise KeyError(kind)


def give_what_does_not_pickle() -> Any:
    return threading.Lock()


def call_on(way: list[str], value: Any) -> Any:
    return rpc.rpc_sync(way[0], call_on, (way[1:], value), timeout=10) if way else value


@rpc.functions.async_execution
def answer_through(way: list[str], value: Any) -> Future[Any]:
    return rpc.rpc_async(way[0], call_on, (way[1:], value), timeout=10).then(
        lambda done: done.wait()
    )


@rpc.functions.async_execution
def answer_by_thread(seconds: float) -> Future[str]:
    answer: Future[str] = Future()
    threading.Timer(seconds, answer.set_result, ("answered",)).start()
    return answer


def use(rref: Any) -> int:
    return int(rref.rpc_sync(timeout=10).add(1))


def pass_on(rref: Any, way: list[str]) -> int:
    return int(rpc.rpc_sync(way[0], pass_on, (rref, way[1:]), timeout=10)) if way else use(rref)


def double(x: Any) -> Any:
    return x * 2


def double_at(x: Any, way: list[str]) -> Any:
    return rpc.rpc_sync(way[0], double_at, (x * 2, way[1:]), timeout=10) if way else x * 2


# ---- who calls ----------------------------------------------------------------------------------


class Callers:
    """Threads that make random calls until they are stopped, and their results."""

    def __init__(self, seed: int, num_threads: int, seconds: float) -> None:
        self.outcomes: Counter[str] = Counter()
        self.doing: dict[str, str] = {}
        self.wrong: list[str] = []
        self._lock = threading.Lock()
        self._until = time.monotonic() + seconds
        self._threads = [
            threading.Thread(
                target=self._call_all,
                args=((seed * WORLD_SIZE + int(os.environ["RANK"])) * 100 + i,),
                name=f"caller-{i}",
            )
            for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def end(self) -> tuple[dict[str, int], list[str]]:
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.wrong.append(f"{thread.name} hangs in {self.doing.get(thread.name)}")
        return dict(self.outcomes), self.wrong

    def _call_all(self, seed: int) -> None:
        rng = random.Random(seed)
        me = threading.current_thread().name
        while time.monotonic() < self._until:
            make = rng.choice(CALLS)
            self.doing[me] = make.__name__
            began = time.monotonic()
            try:
                make(rng)
                outcome = "ok"
            except FastdistError as error:
                outcome = type(error).__name__
                if isinstance(error, (ContextReleasedError, GraphError)):
                    notes = getattr(error, "__notes__", ())
                    self.wrong.append(f"{make.__name__}: {error!r} {notes}")
            except AssertionError as error:
                outcome = f"wrong: {error}"
                self.wrong.append(f"{make.__name__}: {error!r}")
            except Exception as error:
                outcome = type(error).__name__
                if not is_expected(make.__name__, error):
                    self.wrong.append(f"{make.__name__}: {error!r}")
            took_s = time.monotonic() - began
            if took_s > 25:
                self.wrong.append(f"{make.__name__} took {took_s:.1f} s: {outcome}")
            with self._lock:
                self.outcomes[f"{make.__name__}: {outcome}"] += 1


def is_expected(name: str, error: Exception) -> bool:
    return name == "call_that_fails" and type(error).__name__ in (
        "KeyError",
        "StopIteration",
        "CannotPickle",
        "BadText",
        "BadReduce",
    )


def somebody(rng: random.Random) -> str:
    return f"w{rng.randrange(WORLD_SIZE)}"


def way(rng: random.Random) -> list[str]:
    return [somebody(rng) for _ in range(rng.randint(0, 3))]


def plain_call(rng: random.Random) -> None:
    n = rng.choice((0, 10, 10_000, 1_000_000))
    assert len(rpc.rpc_sync(somebody(rng), echo, (bytes(n),))) == n


def tensor_call(rng: random.Random) -> None:
    x = fastdist.ones(rng.choice((1, 100, 300_000)))
    assert rpc.rpc_sync(somebody(rng), echo, (x,)).sum().item() == x.numel()


def many_async_calls(rng: random.Random) -> None:
    futures = [rpc.rpc_async(somebody(rng), echo, (i,)) for i in range(30)]
    errors = []
    for i, future in enumerate(futures):
        try:
            assert future.wait() == i
        except FastdistError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def forgotten_calls(rng: random.Random) -> None:
    for _ in range(3):
        rpc.rpc_async(somebody(rng), hold, (rng.random() * 0.2,), timeout=rng.random() * 0.2)


def short_timeout(rng: random.Random) -> None:
    seconds = rng.choice((0.001, 0.01, 0.05))
    began = time.monotonic()
    try:
        rpc.rpc_sync(somebody(rng), hold, (rng.choice((0.0, 0.02, 0.3)),), timeout=seconds)
    finally:
        # The soak test also freezes processes. The 6 s allow for a freeze of this process.
        assert time.monotonic() - began < seconds + 6


def no_timeout(rng: random.Random) -> None:
    rpc.rpc_sync(somebody(rng), hold, (rng.random() * 0.3,), timeout=0)


def call_that_fails(rng: random.Random) -> None:
    kinds = ("exit", "interrupt", "generator", "pickle", "text", "reduce", "stop", "key")
    rpc.rpc_sync(somebody(rng), fail, (rng.choice(kinds),))


def result_that_does_not_pickle(rng: random.Random) -> None:
    rpc.rpc_sync(somebody(rng), give_what_does_not_pickle)


def argument_that_does_not_pickle(rng: random.Random) -> None:
    rpc.rpc_async(somebody(rng), echo, (threading.Lock(),)).wait()


def nested_call(rng: random.Random) -> None:
    assert rpc.rpc_sync(somebody(rng), call_on, (way(rng), 5)) == 5


def asynchronous_function(rng: random.Random) -> None:
    steps = [somebody(rng), *way(rng)]
    assert rpc.rpc_sync(somebody(rng), answer_through, (steps, 5)) == 5
    assert rpc.rpc_async(somebody(rng), answer_by_thread, (0.05,)).wait() == "answered"


def callback_that_fails(rng: random.Random) -> None:
    then = rpc.rpc_async(somebody(rng), echo, (1,)).then(lambda done: 1 // (done.wait() - 1))
    try:
        then.wait()
    except ZeroDivisionError:
        return
    raise AssertionError("the callback did not fail")


def remote_value(rng: random.Random) -> None:
    rref = rpc.remote(somebody(rng), Counted)
    assert rref.rpc_sync(timeout=10).add(3) == 3
    assert pass_on(rref, way(rng)) == 4
    assert rref.to_here().count >= 3


def forgotten_reference(rng: random.Random) -> None:
    rref = rpc.remote(somebody(rng), Counted)
    rpc.rpc_async(somebody(rng), pass_on, (rref, way(rng)))


def remote_that_fails(rng: random.Random) -> None:
    rref = rpc.remote(somebody(rng), fail, ("key",))
    try:
        rref.to_here()
    except KeyError:
        return
    raise AssertionError("the remote call did not fail")


def backward_pass(rng: random.Random) -> None:
    x = fastdist.ones(3, requires_grad=True)
    steps = way(rng)
    with da.context() as context_id:
        y = rpc.rpc_sync(somebody(rng), double_at, (x, steps))
        if rng.random() < 0.2:
            return
        da.backward(context_id, [y.sum()])
        assert da.get_gradients(context_id)[x].sum().item() == 3 * 2 ** (len(steps) + 1)


def context_that_ends_in_the_midst(rng: random.Random) -> None:
    x = fastdist.ones(3, requires_grad=True)
    with da.context():
        rpc.rpc_async(somebody(rng), double_at, (x, way(rng)))


CALLS: list[Callable[[random.Random], None]] = [
    plain_call,
    tensor_call,
    many_async_calls,
    forgotten_calls,
    short_timeout,
    no_timeout,
    call_that_fails,
    result_that_does_not_pickle,
    argument_that_does_not_pickle,
    nested_call,
    asynchronous_function,
    callback_that_fails,
    remote_value,
    forgotten_reference,
    remote_that_fails,
    backward_pass,
    context_that_ends_in_the_midst,
]

callers: list[Callers] = []


def begin(seed: int, num_threads: int, seconds: float) -> None:
    callers.append(Callers(seed, num_threads, seconds))


def end() -> tuple[dict[str, int], list[str]]:
    return callers.pop().end()


# ---- what is left -------------------------------------------------------------------------------


def left_over() -> dict[str, int]:
    """Return the counts that must be 0 when no call is running."""
    gc.collect()
    info = rpc._get_debug_info()
    kinds = (
        "agent.client_active_calls",
        "agent.server_active_calls",
        "agent.timeouts",
        "num_owner_rrefs",
        "num_pending_users",
        "num_pending_children",
        "num_forks",
    )
    left = {kind: int(info[kind]) for kind in kinds if int(info[kind])}
    return {**left, **{kind: count for kind, count in da._get_debug_info().items() if count}}


def wait_until_nothing_is_left(timeout_s: float = 30.0) -> dict[str, int]:
    deadline = time.monotonic() + timeout_s
    waiter = threading.Event()
    while (left := left_over()) and time.monotonic() < deadline:
        waiter.wait(0.05)
    return left


def resources() -> tuple[int, list[str]]:
    """Return the number of open descriptors, and the sorted names of the threads."""
    return len(os.listdir("/proc/self/fd")), sorted(t.name for t in threading.enumerate())


def shared_memory() -> list[str]:
    return sorted(os.listdir("/dev/shm"))
