"""Contexts and ids of one worker are stored as in PyTorch's container."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from types import FrameType
from typing import Any

import pytest

import fastdist.distributed.autograd as da
from fastdist.core.errors import ContextError, ContextReleasedError
from fastdist.distributed.autograd import container as containers
from fastdist.distributed.autograd import shard as shard_file
from fastdist.distributed.autograd.context import DistAutogradContext
from fastdist.distributed.rpc.message.types import MessageType
from tests.distributed.autograd.fake_agent import fake_agent
from tests.distributed.lives import life

MASK = (1 << 48) - 1


@pytest.fixture
def container() -> Iterator[containers.DistAutogradContainer]:
    yield da._init(3)
    containers.clear_current_context_id()
    containers.stop()


def in_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(10)


@pytest.mark.seed("C1", "C14")
def test_context_ids_hold_the_worker_id_above_a_counter(container: Any) -> None:
    with da.context() as first:
        pass
    with da.context() as second:
        assert first >> 48 == second >> 48 == 3
        assert (second & MASK) == (first & MASK) + 1


@pytest.mark.seed("C2")
@pytest.mark.parametrize("worker_id", [-1, 65536])
def test_worker_ids_outside_of_16_bits_are_refused(worker_id: int) -> None:
    with pytest.raises(ContextError, match=r"^worker_id needs to be in the range \[0, 65535\]"):
        da._init(worker_id)


@pytest.mark.seed("C2")
def test_the_largest_worker_id_works() -> None:
    try:
        assert da._init(65535).max_id == (65535 << 48) | MASK
    finally:
        containers.stop()


@pytest.mark.seed("C3")
def test_the_id_of_no_context_is_minus_one(container: Any) -> None:
    assert da.current_context_id() == -1


@pytest.mark.seed("C4")
def test_each_thread_has_a_context_of_its_own(container: Any) -> None:
    with da.context():
        assert in_thread(da.current_context_id) == -1


@pytest.mark.seed("C5")
def test_all_threads_get_the_same_container() -> None:
    together = threading.Barrier(8)

    def ask() -> int:
        together.wait(10)
        return id(da._init(1))

    try:
        with ThreadPoolExecutor(8) as pool:
            assert len({f.result(10) for f in [pool.submit(ask) for _ in range(8)]}) == 1
    finally:
        containers.stop()


@pytest.mark.seed("C6")
def test_init_again_is_nothing_for_the_same_id_and_an_error_for_another(
    container: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    message_id = container.new_autograd_message_id()
    assert da._init(3) is container
    assert container.new_autograd_message_id() == message_id + 1
    assert "already initialized with worker_id 3" in caplog.text
    with pytest.raises(
        ContextError,
        match=r"^Container is already initialized with worker_id: 3, cannot initialize with "
        r"different worker_id: 4",
    ):
        da._init(4)


@pytest.mark.seed("C7", "C27")
def test_both_counters_start_at_the_worker_id(container: Any) -> None:
    with da.context() as context_id:
        assert context_id == container.new_autograd_message_id() == 3 << 48
    assert da._get_max_id() == (3 << 48) | MASK


@pytest.mark.seed("C8")
def test_a_context_before_init_is_an_error() -> None:
    expected = r"^Need to initialize distributed autograd using torch.distributed.autograd.init\(\)"
    with pytest.raises(ContextError, match=expected), da.context():
        pass


@pytest.mark.seed("C9")
def test_shards_are_a_power_of_two_and_twice_the_hardware_threads(container: Any) -> None:
    count = da._num_shards()
    assert count & (count - 1) == 0 and 2 * (os.cpu_count() or 64) <= count


@pytest.mark.seed("C9")
@pytest.mark.parametrize(("threads", "shards"), [(None, 128), (1, 2), (3, 8), (4, 8), (5, 16)])
def test_the_number_of_shards_follows_the_hardware_threads(
    monkeypatch: pytest.MonkeyPatch, threads: int | None, shards: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: threads)
    assert shard_file.number_of_shards() == shards


@pytest.mark.seed("C10")
def test_the_low_bits_of_an_id_choose_its_shard(container: Any) -> None:
    for _ in range(2 * da._num_shards()):
        with da.context() as context_id:
            shard = container.shards[context_id & (da._num_shards() - 1)]
            assert context_id in shard.contexts


@pytest.mark.seed("C10", "C12", "C29")
def test_each_shard_has_its_own_lock_and_is_changed_and_counted_under_it(container: Any) -> None:
    shard = container.shards[0]
    with ThreadPoolExecutor(3) as pool:
        with shard.lock:
            made = pool.submit(container.get_or_create_context, 0)
            total = pool.submit(container.number_of_contexts)
            assert wait([made, total], timeout=0.05).done == set()
            beside = pool.submit(container.get_or_create_context, 1)
            assert beside.result(10).id == 1  # a context of the next shard
            theirs = shard.contexts[0] = DistAutogradContext(0)
        # `get_or_create_context` looks again under the lock, and finds the context set above.
        assert made.result(10) is theirs and total.result(10) == 2


@pytest.mark.seed("C10", "C29")
def test_many_threads_open_and_release_contexts_at_once(container: Any) -> None:
    def work() -> None:
        for _ in range(200):
            with da.context() as context_id:
                assert da._retrieve_context(context_id)._context_id() == context_id

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work) for _ in range(8)]:
            future.result(30)
    assert da._get_debug_info()["num_autograd_contexts"] == 0


@pytest.mark.seed("C11")
def test_message_ids_of_many_threads_are_unique_and_this_workers(container: Any) -> None:
    def take() -> list[int]:
        return [container.new_autograd_message_id() for _ in range(1250)]

    with ThreadPoolExecutor(8) as pool:
        ids = [i for f in [pool.submit(take) for _ in range(8)] for i in f.result(30)]
    assert len(set(ids)) == 10_000 and {i >> 48 for i in ids} == {3}


@pytest.mark.seed("C7", "C11", "C14")
def test_ids_do_not_spill_into_the_next_workers(
    container: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    container.max_id = container.new_autograd_message_id() + 1
    with pytest.raises(AssertionError, match="used up"):
        container.new_autograd_message_id()
    da._new_context()
    containers.clear_current_context_id()
    with pytest.raises(AssertionError, match="used up"):
        da._new_context()


@pytest.mark.seed("C12")
def test_an_unknown_context_is_made_and_a_known_one_found(container: Any) -> None:
    first = container.get_or_create_context(5 << 48)
    assert container.get_or_create_context(5 << 48) is first
    assert container.number_of_contexts() == 1


@pytest.mark.seed("C12")
def test_a_late_message_does_not_bring_a_released_context_back(container: Any) -> None:
    container.get_or_create_context(5 << 48)
    container.release_context(5 << 48)
    with pytest.raises(ContextReleasedError, match=r"^Could not find autograd context with id: "):
        container.get_or_create_context(5 << 48)


def test_a_context_that_is_released_before_it_came_does_not_come(container: Any) -> None:
    # The context's first message waits for a thread; the notice of the context's end comes first.
    container.release_context_if_present(5 << 48, notified_by=life(5))
    with pytest.raises(ContextReleasedError, match="it was released before this message arrived"):
        container.get_or_create_context(5 << 48)
    # A notice without a sender about an unknown context has no effect.
    container.release_context_if_present(6 << 48)
    container.get_or_create_context(6 << 48)


def test_a_tombstone_goes_when_its_time_is_over(
    container: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_file, "TOMBSTONE_S", -1.0)
    shards = da._num_shards()
    for counter in range(3):
        container.get_or_create_context(counter * shards)
        container.release_context(counter * shards)
    assert len(container.shards[0].released) == 1


@pytest.mark.seed("C13")
def test_contexts_do_not_nest(container: Any) -> None:
    with (
        da.context(),
        pytest.raises(
            ContextError, match=r"^Already have an autograd context id for this thread\."
        ),
        da.context(),
    ):
        pass


@pytest.mark.seed("C14")
def test_a_new_context_is_current_and_can_be_found(container: Any) -> None:
    context = da._new_context()
    assert da.current_context_id() == context.id
    assert da._retrieve_context(context.id) is context


def test_a_block_in_which_nothing_happens_makes_nothing(container: Any) -> None:
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        with da.context() as context_id:
            kept = {**container.shards[context_id & container.mask].contexts}
    finally:
        sys.setprofile(None)
    assert calls == ["__enter__", "__exit__"] and kept == {context_id: None}


def test_a_context_that_was_only_opened_counts_and_is_made_once_for_all_threads(
    container: Any,
) -> None:
    with da.context() as context_id:
        assert container.number_of_contexts() == 1 and container.all_contexts() == []
        shard, together = container.shards[context_id & container.mask], threading.Barrier(5)

        def find(how: Callable[[int], DistAutogradContext]) -> DistAutogradContext:
            together.wait(10)
            return how(context_id)

        ways = [container.get_or_create_context, container.retrieve_context] * 2
        with ThreadPoolExecutor(4) as pool:
            with shard.lock:
                made = [pool.submit(find, how) for how in ways]
                together.wait(10)
                assert wait(made, timeout=0.05).done == set()
            (found,) = {future.result(10) for future in made}
        assert container.all_contexts() == [found] and da._current_context() is found
    assert container.number_of_contexts() == 0


def test_a_context_that_was_only_opened_is_released_like_any_other(container: Any) -> None:
    with fake_agent() as agent:
        with da.context() as context_id:
            da._release_context(context_id)
            with pytest.raises(ContextError, match=r"^Could not find autograd context with id"):
                da._release_context(context_id)
        agent.notice_sender.send_gathered()
    assert container.number_of_contexts() == 0


@pytest.mark.seed("C12")
def test_a_used_context_does_not_come_back_after_its_block(container: Any) -> None:
    with da.context() as context_id:
        assert da._current_context().id == context_id
    with pytest.raises(ContextReleasedError, match=r"^Could not find autograd context with id: "):
        container.get_or_create_context(context_id)


@pytest.mark.seed("C15")
def test_a_thread_has_a_valid_context_inside_the_block_alone(container: Any) -> None:
    with da.context():
        assert container.has_valid_context()
    assert not container.has_valid_context()


@pytest.mark.seed("C16")
def test_the_current_context_outside_of_any_says_how_to_open_one(container: Any) -> None:
    with pytest.raises(
        ContextError,
        match=r"^Current thread doesn't have a valid autograd context. Please wrap your code "
        r"using: `with torch.distributed.autograd.context\(\) as context_id`",
    ):
        da._current_context()


@pytest.mark.seed("C17")
def test_a_context_released_by_another_thread_is_missed(container: Any) -> None:
    with da.context() as context_id:
        in_thread(lambda: da._release_context(context_id))
        with pytest.raises(
            ContextError,
            match=r"^Couldn't find autograd context data for current autograd context id",
        ):
            da._current_context()


@pytest.mark.seed("C18", "C26")
@pytest.mark.parametrize(
    "ask",
    [
        da._release_context,
        da._retrieve_context,
        da._is_valid_context,
        da.get_gradients,
        lambda context_id: da.backward(context_id, []),
    ],
)
def test_an_unknown_context_is_an_error_that_names_it(
    container: Any, ask: Callable[[int], object]
) -> None:
    with pytest.raises(ContextError, match=r"^Could not find autograd context with id: 77"):
        ask(77)


@pytest.mark.seed("C19")
def test_a_second_release_if_present_is_harmless(container: Any) -> None:
    container.get_or_create_context(9)
    container.release_context_if_present(9)
    container.release_context_if_present(9)
    assert container.number_of_contexts() == 0


@pytest.mark.seed("C20")
def test_a_release_forgets_first_and_asks_others_without_a_lock(container: Any) -> None:
    with fake_agent() as agent:
        context = container.get_or_create_context(9)
        context.add_known_worker(life(1))
        shard = container.shards[9 & (da._num_shards() - 1)]
        seen: list[tuple[bool, bool]] = []
        agent.when_sent = lambda _: seen.append((shard.lock.locked(), 9 in shard.contexts))
        container.release_context(9)
        agent.notice_sender.send_gathered()
    assert seen == [(False, False)]


@pytest.mark.seed("C21")
def test_releasing_the_current_context_frees_the_thread(container: Any) -> None:
    with da.context() as context_id:
        da._release_context(context_id)
        assert da.current_context_id() == -1
        with da.context():
            pass


@pytest.mark.seed("C21")
def test_a_thread_is_free_after_rpc_was_shut_down_inside_of_its_context() -> None:
    da._init(3)
    with da.context():
        containers.stop()
    assert da.current_context_id() == -1


@pytest.mark.seed("C22")
def test_clean_up_goes_to_every_known_worker_with_20_retries(container: Any) -> None:
    with fake_agent() as agent:
        context = container.get_or_create_context(9)
        context.add_known_workers({life(1), life(2)})
        container.release_context(9)
        agent.notice_sender.send_gathered()
    expected = MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ
    assert sorted(agent.sent) == [(i, expected, {"context_ids": [9]}, 20) for i in (1, 2)]


@pytest.mark.seed("C23")
def test_a_release_without_an_agent_is_logged_and_harmless(
    container: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    container.get_or_create_context(9).add_known_worker(life(1))
    container.release_context(9)
    assert "no RPC agent: context 0:9 is not released on workers [1]" in caplog.text


@pytest.mark.seed("C24")
def test_a_failed_clean_up_is_logged(container: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with fake_agent() as agent:
        agent.fails_for = {1}
        container.get_or_create_context(9).add_known_worker(life(1))
        container.release_context(9)
        agent.notice_sender.send_gathered()
    (record,) = (one for one in caplog.records if one.levelno >= logging.WARNING)
    expected = (
        "Could not release Dist Autograd Context on node 1: "
        "worker 'w1' was not notified: worker 1 did "
    )
    assert record.levelno == logging.WARNING and record.getMessage().startswith(expected)


@pytest.mark.seed("C25")
def test_one_worker_that_cannot_be_asked_does_not_keep_others_from_it(container: Any) -> None:
    with fake_agent() as agent:
        agent.raises_for = {1}
        container.get_or_create_context(9).add_known_workers({life(0), life(1), life(2)})
        container.release_context(9)
        agent.notice_sender.send_gathered()
    assert sorted(worker_id for worker_id, *_ in agent.sent) == [0, 2]


@pytest.mark.seed("C28")
def test_the_current_id_can_be_forced_set_once_and_cleared(container: Any) -> None:
    containers.force_current_context_id(7)
    containers.force_current_context_id(8)
    assert da.current_context_id() == 8
    expected = r"^Already have an autograd context id for this thread\."
    with pytest.raises(AssertionError, match=expected):
        containers.set_current_context_id(9)
    containers.clear_current_context_id()
    assert da.current_context_id() == -1
    containers.set_current_context_id(9)
    assert da.current_context_id() == 9


@pytest.mark.seed("C29", "E1")
def test_debug_information_counts_contexts_of_all_shards(container: Any) -> None:
    for context_id in range(100):
        container.get_or_create_context(context_id)
    assert da._get_debug_info() == {"num_current_backward_passes": 0, "num_autograd_contexts": 100}
    for context_id in range(100):
        container.release_context(context_id)
