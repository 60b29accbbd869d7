"""A failed clean-up is logged, unless it fails because RPC shuts down."""

from __future__ import annotations

import logging
import os
import threading

import pytest

import fastdist.distributed.autograd as da
from fastdist.concurrency.future import Future
from fastdist.distributed import rpc
from fastdist.distributed.rpc.handlers import register_handler
from tests.distributed.autograd.programs import first_of, leaf, mix_at
from tests.distributed.members import join
from tests.distributed.workers import Group, run_group


class Warnings(logging.Handler):
    """Collects warnings about notices."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self.came = threading.Event()
        logging.getLogger("fastdist.distributed.rpc.notices").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.levelname} {record.getMessage()}")
        self.came.set()


def leave_right_after_a_context() -> list[str]:
    warnings = Warnings()
    join({})
    with da.context():
        mix_at(leaf(1), leaf(2), *[f"w{(int(os.environ['RANK']) + i) % 3}" for i in (1, 2)])
    rpc.shutdown()
    return warnings.texts


@pytest.mark.seed("C24", "T29")
def test_a_shutdown_right_after_a_context_warns_of_nothing() -> None:
    assert run_group(leave_right_after_a_context, 3) == [[], [], []]


def reach_w1() -> None:
    join({"rpc_timeout": 30})
    if os.environ["RANK"] == "1":
        # w1 gets the notice while it lives, and never answers. Workers that are known as lost would
        # get no notice.
        never = Future[None]()
        register_handler(rpc.MessageType.CLEANUP_AUTOGRAD_CONTEXT_REQ, lambda request: never)
    if os.environ["RANK"] == "0":
        da._init(0).new_context()
        rpc.rpc_sync("w1", first_of, (leaf(1),))


told: list[Warnings] = []


def release() -> None:
    told.append(Warnings())
    da._release_context(da.current_context_id())
    rpc._get_current_rpc_agent().notice_sender.flush()


def listen() -> list[str]:
    (warnings,) = told
    assert warnings.came.wait(20)
    rpc.shutdown(graceful=False)
    return warnings.texts


@pytest.mark.seed("C24")
def test_a_worker_that_died_with_a_context_is_named_in_a_warning() -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(reach_w1)
        group[0].run(release)
        group[1].kill()
        (text, *_) = group[0].run(listen)
        assert text.startswith(
            "WARNING Could not release Dist Autograd Context on node 1: "
            "worker 'w1' was not notified: "
        )
    finally:
        group.kill()
