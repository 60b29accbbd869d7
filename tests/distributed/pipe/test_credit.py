"""The limits of one peer's unanswered calls, and the callers that wait when a limit is reached."""

from __future__ import annotations

import threading
import time

from fastdist.distributed.pipe.credit import Credit


def test_calls_within_the_limits_do_not_wait() -> None:
    credit = Credit(max_bytes=100, max_calls=3)
    for size in (40, 40, 20):
        assert credit.take(size, deadline=0.0)
    assert credit.under_way() == (100, 3)


def test_a_call_beyond_the_bytes_waits_until_others_end() -> None:
    credit = Credit(max_bytes=100, max_calls=10)
    assert credit.take(80)
    assert not credit.take(30, deadline=time.monotonic() + 0.02)
    threading.Timer(0.02, credit.give_back, (80,)).start()
    assert credit.take(30, deadline=time.monotonic() + 10)
    assert credit.under_way() == (30, 1)


def test_a_call_beyond_the_number_waits() -> None:
    credit = Credit(max_bytes=100, max_calls=1)
    assert credit.take(1)
    assert not credit.take(1, deadline=time.monotonic() + 0.01)


def test_a_call_larger_than_everything_goes_alone() -> None:
    credit = Credit(max_bytes=100, max_calls=10)
    assert credit.take(1000)
    assert not credit.take(1, deadline=time.monotonic() + 0.01)
    credit.give_back(1000)
    assert credit.take(1, deadline=0.0)


def test_many_threads_never_hold_more_than_the_limit() -> None:
    credit = Credit(max_bytes=10, max_calls=100)
    most, lock = 0, threading.Lock()

    def caller() -> None:
        nonlocal most
        for _ in range(200):
            assert credit.take(3, deadline=time.monotonic() + 20)
            with lock:
                most = max(most, credit.under_way()[0])
            credit.give_back(3)

    threads = [threading.Thread(target=caller) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most <= 9 and credit.under_way() == (0, 0)
