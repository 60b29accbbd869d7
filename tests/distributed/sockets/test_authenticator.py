"""The thread of the ZAP handler runs while any socket needs it, and survives errors."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import zmq

from fastdist.distributed.sockets import (
    CurveSecurity,
    JobSecret,
    authenticator,
    bind,
    make_socket,
)


def is_running() -> bool:
    return authenticator.THREAD_NAME in {thread.name for thread in threading.enumerate()}


def test_the_thread_lives_from_the_first_secured_socket_to_the_last() -> None:
    routers = [make_socket(zmq.ROUTER, "router") for _ in range(2)]
    for router in routers:
        bind(router, "tcp://127.0.0.1:0", CurveSecurity.for_rank(JobSecret.generate(), "", 0, 1))
    routers[0].close()
    assert is_running()
    routers[1].close()
    assert not is_running()


def test_it_can_begin_again_at_once() -> None:
    for _ in range(50):
        authenticator.dismiss(authenticator.admit(lambda key: None))
    assert not is_running()


def test_dismissing_twice_does_nothing() -> None:
    domain = authenticator.admit(lambda key: None)
    authenticator.dismiss(domain)
    authenticator.dismiss(domain)
    assert not is_running()


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        ([b"1.0", b"7", b"DOMAIN", b"::1", b"", b"CURVE", b"member"], [b"200", b"user 5"]),
        ([b"1.0", b"7", b"DOMAIN", b"::1", b"", b"CURVE", b"stranger"], [b"400", b""]),
        ([b"1.0", b"7", b"closed", b"::1", b"", b"CURVE", b"member"], [b"300", b""]),
        ([b"1.0", b"7", b"DOMAIN", b"::1", b"", b"NULL", b"member"], [b"400", b""]),
        ([b"1.0", b"7", b"DOMAIN", b"::1", b"", b"PLAIN", b"name", b"member"], [b"400", b""]),
        ([b"2.0", b"7", b"DOMAIN", b"::1", b"", b"CURVE", b"member"], [b"400", b""]),
        ([b"1.0", b"7"], [b"400", b""]),
        ([b"1.0", b"7", b"\xff\xfe", b"", b"", b"CURVE", b"member"], [b"300", b""]),
    ],
)
def test_each_question_gets_one_verdict(question: list[bytes], verdict: list[bytes]) -> None:
    domain = authenticator.admit(lambda key: "user 5" if key == b"member" else None)
    asker = make_socket(zmq.REQ, "who asks")
    asker.set(zmq.RCVTIMEO, 10_000)
    asker.connect(authenticator.ZAP_ENDPOINT)
    asker.send_multipart([part.replace(b"DOMAIN", domain.encode()) for part in question])
    version, request_id, status, _, user, metadata = asker.recv_multipart()
    assert [version, request_id, metadata] == [b"1.0", b"7", b""]
    assert [status, user] == verdict
    asker.close()
    authenticator.dismiss(domain)


def test_a_question_that_cannot_be_judged_is_refused_and_the_next_one_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keys: list[bytes] = []

    def look_up(key: bytes) -> str | None:
        keys.append(key)
        if len(keys) == 1:
            raise MemoryError("not now")
        return "user 5"

    domain = authenticator.admit(look_up)
    asker = make_socket(zmq.REQ, "who asks")
    asker.set(zmq.RCVTIMEO, 10_000)
    asker.connect(authenticator.ZAP_ENDPOINT)
    verdicts = []
    for _ in range(2):
        question = [b"1.0", b"7", domain.encode(), b"::1", b"", b"CURVE", b"member"]
        asker.send_multipart(question)
        verdicts.append(asker.recv_multipart()[2])
    assert verdicts == [b"400", b"200"]
    asker.close()
    authenticator.dismiss(domain)
    assert "not now" in caplog.text


def test_a_door_that_cannot_count_its_connections_lets_members_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenDomain:
        def take_note(self) -> None:
            raise OSError(24, "Too many open files")

    broken: Any = BrokenDomain()
    before = time.monotonic()
    again = authenticator._look_at(broken)
    assert again is not None and again > before
    assert "Too many open files" in caplog.text
