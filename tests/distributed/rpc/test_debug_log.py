"""A worker logs its actions at DEBUG with rank, peer and id, and logs nothing otherwise."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from functools import partial

import pytest

import fastdist as fd
from fastdist.distributed import autograd as dist_autograd
from fastdist.distributed import rpc
from fastdist.distributed.rpc.debug_log import debug_log
from fastdist.distributed.rpc.torch_names import faulty_agent  # noqa: F401 - the class that a resend needs
from tests.distributed.members import init
from tests.distributed.workers import Group, open_gate, run_group, wait_at

NAMES = ("rpc.calls", "rpc.workers", "autograd.contexts", "autograd.passes")


class Lines(logging.Handler):
    """Collects log lines, with the last two parts of the logger's name."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        logger = ".".join(record.name.split(".")[-2:])
        self.kept.append(f"{logger} {record.getMessage()}")


lines = Lines()


def listen() -> None:
    logger = logging.getLogger("fastdist.distributed")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(lines)


def require(*patterns: str) -> None:
    """Check that each pattern matches a line, in this order."""
    at = 0
    for pattern in patterns:
        found = [i for i in range(at, len(lines.kept)) if re.search(pattern, lines.kept[i])]
        assert found, f"{pattern!r} is not in {lines.kept[at:]}"
        at = found[0]


def hold(seconds: float) -> None:
    threading.Event().wait(seconds)


def fail(x: fd.Tensor) -> fd.Tensor:
    raise ValueError("on purpose")


class Broken(fd.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: fd.Tensor) -> fd.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, g: fd.Tensor) -> fd.Tensor:
        raise ValueError("no gradient")


def break_later(x: fd.Tensor) -> fd.Tensor:
    y: fd.Tensor = Broken.apply(x)
    return y


def calls_and_passes() -> None:
    listen()
    rank = init()
    if rank == 0:
        rpc.rpc_sync("w1", fd.exp, (fd.ones(2),))
        rpc.rpc_async("w1", hold, (0.0,)).wait()
        for call in (rpc.rpc_sync, rpc.rpc_async):
            with pytest.raises(RuntimeError, match="RPC ran for more"):  # noqa: PT012
                done = call("w1", wait_at, ("late",), timeout=0.05)
                done.wait()
        rpc.rpc_sync("w1", open_gate, ("late",))
        with pytest.raises(ValueError, match="on purpose"):
            rpc.rpc_sync("w1", fail, (fd.ones(1),))
        for function in (fd.exp, break_later):
            with dist_autograd.context() as context_id:
                y = rpc.rpc_sync("w1", function, (fd.ones(2, requires_grad=True),))
                try:
                    dist_autograd.backward(context_id, [y.sum()])
                except ValueError:
                    assert function is break_later
    rpc.shutdown()
    check_caller() if rank == 0 else check_callee()


def check_caller() -> None:
    to = r" on worker 'w1' \(rank 1\)"
    require(
        r"^rpc\.workers rank 0: joins as 'w0' a group of \['w0', 'w1'\]$",
        rf"^rpc\.calls rank 0: call \d+:\d+ \(SCRIPT_CALL\), exp{to}: begins$",
        rf"^rpc\.calls rank 0: call \d+:\d+ \(SCRIPT_CALL\), exp{to}: answered$",
        rf"^rpc\.calls rank 0: call \d+:\d+ \(PYTHON_CALL\), hold{to}: answered$",
        rf"^rpc\.calls rank 0: call \d+:\d+ \(PYTHON_CALL\), wait_at{to}: timed out$",
        rf"^rpc\.calls rank 0: call \d+:\d+ \(PYTHON_CALL\), wait_at{to}: failed$",
        rf"^rpc\.calls rank 0: call \d+:\d+ \(PYTHON_CALL\), wait_at{to}: timed out$",
        rf"^rpc\.calls rank 0: call \d+:\d+ \(PYTHON_CALL\), fail{to}: failed$",
        r"^autograd\.contexts rank 0: context \d+:\d+: begins$",
        r"^autograd\.passes rank 0: context \d+:\d+, pass .*: begins$",
        rf"^rpc\.calls .* \(BACKWARD_AUTOGRAD_REQ\), BACKWARD_AUTOGRAD_REQ{to}: begins$",
        r"^autograd\.passes rank 0: context \d+:\d+, pass \d+:\d+: ended$",
        r"^autograd\.contexts rank 0: context \d+:\d+: is released; known to \{1\}$",
        r"^autograd\.passes rank 0: context \d+:\d+, pass \d+:\d+: is aborted everywhere",
        r"^rpc\.workers rank 0: leaves the group$",
    )
    require(r"^rpc\.workers rank 0: connects to worker 'w1'$")
    require(r"BACKWARD_AUTOGRAD_REQ.*: begins$", r"BACKWARD_AUTOGRAD_REQ.*: failed$")


def check_callee() -> None:
    require(
        r"^rpc\.workers rank 1: worker 'w0' has connected$",
        r"^rpc\.calls rank 1: call \d+:\d+ \(SCRIPT_CALL\) of rank 0: received$",
        r"^rpc\.calls rank 1: call \d+:\d+ \(SCRIPT_CALL\) of rank 0: ended, \d+ bytes sent$",
        r"^autograd\.contexts rank 1: context \d+:\d+: was created by a message of rank 0$",
        r"^autograd\.passes rank 1: context \d+:\d+, pass \d+:\d+: begins, requested by rank 0",
        r"^autograd\.passes rank 1: context \d+:\d+, pass \d+:\d+: failed$",
    )


@pytest.mark.one_in(8)
def test_calls_contexts_and_passes_are_told_with_their_ids() -> None:
    run_group(calls_and_passes, 2)


def join_and_listen() -> None:
    listen()
    init()


def loss_is_told() -> Sequence[str]:
    with pytest.raises(RuntimeError):
        rpc.rpc_sync("w1", hold, (30.0,))
    rpc.shutdown(graceful=False)
    return lines.kept


@pytest.mark.one_in(8)
def test_a_loss_is_told() -> None:
    group = Group(__file__, 2)
    try:
        group.run_all(join_and_listen)
        group[0].start(loss_is_told)
        group[1].kill()
        kept = group[0].result()
        assert any(
            re.search(r"^rpc\.workers rank 0: worker 'w1' was lost: ", line) for line in kept
        )
    finally:
        group.kill()


def quiet() -> int:
    logger = logging.getLogger("fastdist.distributed")
    logger.addHandler(lines)
    rank = init()
    assert not (debug_log.of_calls or debug_log.of_autograd)
    if rank == 0:
        rpc.rpc_sync("w1", fd.ones, (2,))
        for name in NAMES:
            logging.getLogger(f"fastdist.distributed.{name}").setLevel(logging.DEBUG)
        assert debug_log.of_calls and debug_log.of_autograd
    rpc.shutdown()
    return sum(": begins" in line for line in lines.kept)


@pytest.mark.one_in(8)
def test_nothing_is_said_where_nobody_listens() -> None:
    first, second = run_group(quiet, 2)
    assert second == 0 <= first


def listen_and_turn_away() -> None:
    rank = init()
    if rank == 0:
        rpc.rpc_sync("w1", len, ("x",))
        assert lines.kept == []
        listen()
        rpc.rpc_sync("w1", len, ("x",))
        require(r"^rpc\.calls rank 0: call \d+:\d+ \(PYTHON_CALL\), len .*: answered$")
        for silence in (
            partial(logging.disable, logging.DEBUG),
            partial(logging.getLogger("fastdist.distributed").setLevel, logging.INFO),
        ):
            silence()
            lines.kept.clear()
            rpc.rpc_sync("w1", len, ("x",))
            assert lines.kept == [] and not debug_log.of_calls
            logging.disable(logging.NOTSET)
        # Enable the log for one package, and then through the root logger.
        logging.getLogger("fastdist.distributed.autograd").setLevel(logging.DEBUG)
        assert (debug_log.of_calls, debug_log.of_autograd) == (False, True)
        logging.getLogger("fastdist.distributed").setLevel(logging.NOTSET)
        logging.getLogger().setLevel(logging.DEBUG)
        assert debug_log.of_calls
    rpc.shutdown()


@pytest.mark.one_in(8)
def test_a_level_that_is_set_while_calls_are_made_is_heard_by_the_next() -> None:
    run_group(listen_and_turn_away, 2)
