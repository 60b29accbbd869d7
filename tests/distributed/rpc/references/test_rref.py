"""Remote values that stay with their owner: creating, passing on, using and dropping them."""

from __future__ import annotations

import gc
import pickle
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastdist
from fastdist.core.errors import RpcError
from fastdist.core.folded_frames import OUR_FILES
from fastdist.distributed import rpc
from fastdist.distributed.rpc.references.rref import id_as_text
from fastdist.futures import Future
from tests.distributed.members import members
from tests.distributed.workers import Group

DEADLINE_S = 20.0


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 3) as group:
        yield group


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.count = start

    def add(self, n: int = 1) -> int:
        self.count += n
        return self.count

    @rpc.functions.async_execution
    def add_later(self, to: str, n: int) -> Future[int]:
        return rpc.rpc_async(to, identity, (n,)).then(lambda done: self.add(done.value()))

    def fail(self) -> None:
        raise KeyError("in a method")


def identity(value: Any) -> Any:
    return value


def slow(value: Any) -> Any:
    threading.Event().wait(0.2)
    return value


def raise_value_error() -> None:
    raise ValueError("never made")


def owned_here() -> int:
    gc.collect()
    return int(rpc._rref_context_get_debug_info()["num_owner_rrefs"])


def wait_until_none_is_left() -> None:
    deadline = time.monotonic() + DEADLINE_S
    for worker in ("w0", "w1", "w2"):
        while rpc.rpc_sync(worker, owned_here):
            assert time.monotonic() < deadline, rpc.rpc_sync(
                worker, rpc._rref_context_get_debug_info
            )
    info = rpc._rref_context_get_debug_info()
    while info["num_pending_users"] != "0" or info["num_pending_children"] != "0":
        assert time.monotonic() < deadline, info
        info = rpc._rref_context_get_debug_info()


# ---- each function below runs in worker 0 -------------------------------------------------------


def remote_and_to_here() -> None:
    rref = rpc.remote("w1", identity, (fastdist.tensor([1.0, 2.0]),))
    assert rref.owner_name() == "w1" and rref.owner() == rpc.get_worker_info("w1")
    assert not rref.is_owner()
    assert rref.to_here().tolist() == [1.0, 2.0]
    assert rpc.remote("w1", slow, (5,)).to_here() == 5
    assert repr(rref).startswith("UserRRef(RRefId = GloballyUniqueId(created_on=0, local_id=")
    deadline = time.monotonic() + DEADLINE_S
    while not rref.confirmed_by_owner():
        assert time.monotonic() < deadline
    with pytest.raises(RpcError, match=r"can't call localValue\(\) on user .*name=w0.*name=w1"):
        rref.local_value()


def owner_rref() -> None:
    rref = rpc.RRef(Counter(3))
    assert rref.is_owner() and rref.confirmed_by_owner() and rref.owner_name() == "w0"
    assert rref.to_here() is rref.local_value()
    assert rref.rpc_sync().add(2) == 5
    assert rpc.rpc_sync("w1", add_to, (rref, 10)) == 15
    assert rref.local_value().count == 15
    assert repr(rref).startswith("OwnerRRef(GloballyUniqueId(created_on=0")


def add_to(rref: Any, n: int) -> int:
    return rref.rpc_sync().add(n)  # type: ignore[no-any-return]


def remote_to_oneself() -> None:
    rref = rpc.remote("w0", Counter, (1,))
    assert rref.is_owner()
    assert rref.rpc_sync().add() == 2
    assert rref.to_here().count == 2


def proxies() -> None:
    rref = rpc.remote("w1", Counter)
    assert rref.rpc_sync().add(2) == 2
    assert rref.rpc_async().add(2).wait() == 4
    assert rref.remote().add(2).to_here() == 6
    assert rref.rpc_sync().add_later("w2", 4) == 10
    assert rref.rpc_async().add_later("w2", 4).wait() == 14
    assert rref.remote().add_later("w2", 4).to_here() == 18
    assert rref._get_type() is type(rref.to_here())
    with pytest.raises(KeyError, match="in a method"):
        rref.rpc_sync().fail()
    with pytest.raises(AttributeError):
        rref.rpc_sync().no_such_method()


def errors_of_creation() -> None:
    rref = rpc.remote("w1", raise_value_error)
    for _ in range(2):
        with pytest.raises(ValueError, match="never made") as raised:
            rref.to_here()
        assert raised.value.__notes__[0].startswith("On worker 'w1'")
    local = rpc.remote("w0", raise_value_error)
    with pytest.raises(ValueError, match="never made"):
        local.to_here()
    with pytest.raises(RpcError):
        rpc.remote("w1", identity, (threading.Lock(),))


def errors_show_no_frame_of_ours() -> None:
    failed, counter, own = (
        rpc.remote("w1", raise_value_error),
        rpc.remote("w1", Counter),
        rpc.RRef(5),
    )
    calls: list[Callable[[], object]] = [
        failed.to_here,
        rpc.remote("w0", raise_value_error).to_here,
        counter.local_value,
        counter.rpc_sync().fail,
        lambda: counter.rpc_async().fail().wait(),
        lambda: counter.rpc_async(timeout=-3).fail(),
        lambda: counter.remote().fail().to_here(),
        lambda: counter.remote(timeout=-3).fail(),
        counter.backward,
        own.backward,
    ]
    for call in calls:
        with pytest.raises(Exception, match=r".") as raised:
            call()
        frames = traceback.extract_tb(raised.value.__traceback__)
        assert [frame for frame in frames if frame.filename.startswith(OUR_FILES)] == []


had: list[weakref.ref[Counter]] = []


def fail_with_a_counter() -> None:
    counter = Counter()
    had.append(weakref.ref(counter))
    raise_value_error()


@rpc.functions.async_execution
def fail_later_with_a_counter() -> Future[None]:
    return rpc.rpc_async("w2", identity, (0,)).then(lambda done: fail_with_a_counter())


def is_anything_left_of_functions() -> bool:
    gc.collect()
    return any(counter() is not None for counter in had)


def an_error_says_where_it_was_raised_and_keeps_nothing_of_its_function() -> None:
    for function in (fail_with_a_counter, fail_later_with_a_counter):
        rref = rpc.remote("w1", function)
        with pytest.raises(ValueError, match="never made") as raised:
            rref.to_here()
        assert "in fail_with_a_counter" in raised.value.__notes__[0]
        # The thread that reported the error may hold the value for a moment.
        deadline = time.monotonic() + DEADLINE_S
        while rpc.rpc_sync("w1", is_anything_left_of_functions):
            assert time.monotonic() < deadline, function


def pass_on(rref: Any, to: str) -> Any:
    return rpc.rpc_sync(to, read, (rref,))


def read(rref: Any) -> Any:
    return rref.to_here()


def give_back(rref: Any) -> Any:
    return rref


def references_travel() -> None:
    rref = rpc.remote("w1", identity, ("treasure",))
    assert rpc.rpc_sync("w2", read, (rref,)) == "treasure"
    assert rpc.rpc_sync("w1", read, (rref,)) == "treasure"
    assert rpc.rpc_sync("w2", pass_on, (rref, "w1")) == "treasure"
    assert rpc.rpc_sync("w2", pass_on, (rref, "w0")) == "treasure"
    assert rpc.rpc_sync("w1", pass_on, (rref, "w2")) == "treasure"
    again = rpc.rpc_sync("w2", give_back, (rref,))
    assert again.to_here() == "treasure" and again.owner_name() == "w1"
    inside = rpc.rpc_sync("w1", give_back, ({"deep": [rref]},))
    assert inside["deep"][0].to_here() == "treasure"


def keeps_alive(rref: Any) -> None:
    kept.append(rref)


def let_go() -> Any:
    return kept.pop().to_here()


kept: list[Any] = []


def a_value_lives_as_long_as_any_reference() -> None:
    rref = rpc.remote("w1", identity, ([1, 2, 3],))
    rpc.rpc_sync("w2", keeps_alive, (rref,))
    del rref
    gc.collect()
    # Notices are sent before the next three calls are answered.
    for worker in ("w1", "w2", "w1"):
        rpc.rpc_sync(worker, identity, (0,))
    assert rpc.rpc_sync("w1", owned_here) == 1
    assert rpc.rpc_sync("w2", let_go) == [1, 2, 3]


def pickling_outside_rpc_is_refused() -> None:
    rref = rpc.remote("w1", identity, (1,))
    with pytest.raises(RpcError, match=r"^Can not pickle rref in python pickler"):
        pickle.dumps(rref)


def many_at_once() -> None:
    rrefs = [rpc.remote(f"w{1 + i % 2}", identity, (i,)) for i in range(200)]
    assert [rref.to_here() for rref in rrefs] == list(range(200))


def take_apart_and_put_together() -> None:
    rref = rpc.remote("w1", identity, (5,))
    assert rpc.internal.deserialize(*rpc.internal.serialize(rref)).to_here() == 5


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "body",
    [
        remote_and_to_here,
        owner_rref,
        remote_to_oneself,
        proxies,
        errors_of_creation,
        errors_show_no_frame_of_ours,
        an_error_says_where_it_was_raised_and_keeps_nothing_of_its_function,
        references_travel,
        a_value_lives_as_long_as_any_reference,
        pickling_outside_rpc_is_refused,
        many_at_once,
    ],
    ids=lambda body: body.__name__,
)
def test_rref(group: Group, body: Any) -> None:
    group[0].run(body)
    group[0].run(wait_until_none_is_left)


def test_annotations_with_pytorchs_other_name_hold() -> None:
    assert rpc.PyRRef is rpc.RRef


def ask_itself_for_what_does_not_travel() -> int:
    before = owned_here()
    with pytest.raises(RpcError, match="pickle"):
        rpc.remote(rpc.get_worker_info(), identity, args=(threading.Lock(),))
    deadline = time.monotonic() + DEADLINE_S
    while owned_here() > before and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    return owned_here() - before


def test_a_call_of_oneself_that_could_not_be_sent_leaves_no_value_behind(group: Group) -> None:
    assert group[0].run(ask_itself_for_what_does_not_travel) == 0


def test_a_reference_may_be_taken_apart_outside_of_a_call(group: Group) -> None:
    group[0].run(take_apart_and_put_together)


@pytest.mark.one_in(8)
def test_an_id_is_shown_as_the_rank_that_made_it_and_a_number_of_its_own() -> None:
    assert id_as_text(3 << 48 | 5) == "GloballyUniqueId(created_on=3, local_id=5)"
