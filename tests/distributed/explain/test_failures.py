"""For a failed pass, `explain` shows the failure, its place, and the lost workers."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import WorkerLostError
from fastdist.distributed import rpc
from fastdist.distributed.explain.explanation import Explanation
from fastdist.distributed.explain.pieces import ROOT, Hop, Stretch
from fastdist.distributed.rpc.message.ids import id_text
from tests.distributed.autograd.programs import fail, leaf, mix_at, with_hook
from tests.distributed.members import init
from tests.distributed.workers import Group


@pytest.fixture
def group() -> Iterator[Group]:
    group = Group(__file__, 3)
    try:
        yield group
    finally:
        group.kill()


def join() -> None:
    init(rpc_timeout=30, init_timeout=30)


def leave() -> None:
    rpc.shutdown()


def leave_at_once() -> None:
    rpc.shutdown(graceful=False)


def die(grad: Tensor) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hooked_behind(x: Tensor) -> Tensor:
    """Compute a result on w2, whose backward raises an error there."""
    found: Tensor = rpc.rpc_sync("w2", with_hook, (x, fail))
    return found


def require_no_way_back(found: Explanation) -> None:
    crossed = [hop for hop in found.hops if hop.left is not None and hop.arrived is not None]
    assert crossed and all((hop.arrived or 0.0) >= (hop.left or 0.0) for hop in crossed)


def explain_the_very_first_pass() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        da.backward(context_id, [mix_at(a, b, "w1", "w2").sum()])
        found = da.explain(context_id)
    assert found.state == "over" and not found.failures and not found.lost
    assert sum(hop.arrived is not None for hop in found.hops) == 4
    require_no_way_back(found)


def explain_a_failure() -> None:
    with da.context() as context_id:
        loss = rpc.rpc_sync("w1", hooked_behind, (leaf(1),)).sum()
        with pytest.raises(RuntimeError, match="Error on Node 2: Simulate error"):
            da.backward(context_id, [loss])
        found = da.explain(context_id)
    assert found.state == "failed" and found.lost == frozenset()
    # Only the failing worker is listed, not w0 and w1, which were notified.
    assert found.failures == {2: "RuntimeError: Simulate error on backward pass"}
    assert found.seconds is not None and found.seconds > 0.0
    require_no_way_back(found)
    text = str(found)
    assert f"context {id_text(context_id)}: backward pass failed after " in text
    assert "\n  w2 (rank 2) raised RuntimeError: Simulate error on backward pass\n" in text
    assert "no gradients came for:\n" in text
    *_, last = found.critical_path
    assert isinstance(last, Stretch) and last.worker == 2 and last.has_failed
    assert last.ended == found.seconds or (last.ended or 0.0) > (last.began or 0.0)
    assert "\nthe path to the failure:\n" in text
    assert f" ms  w2: failed in {last.failed_in}, among " in text and last.failed_in
    with da.context() as context_id:
        # The failure does not affect the next pass.
        da.backward(context_id, [rpc.rpc_sync("w1", mix_at, (leaf(1), leaf(2), "w2")).sum()])
        assert da.explain(context_id).state == "over"


def explain_a_failure_at_home() -> None:
    x = leaf(1)
    x.register_hook(fail)
    with da.context() as context_id:
        loss = rpc.rpc_sync("w1", mix_at, (x * 2, leaf(2), "w2")).sum()
        with pytest.raises(RuntimeError, match="Simulate error"):
            da.backward(context_id, [loss])
        found = da.explain(context_id)
    assert found.state == "failed"
    assert found.failures == {0: "RuntimeError: Simulate error on backward pass"}
    *_, last = found.critical_path
    assert isinstance(last, Stretch) and (last.worker, last.has_failed) == (0, True)
    assert last.start != ROOT and last.leaves == 2
    with da.context() as context_id:
        loss = rpc.rpc_sync("w1", mix_at, (leaf(1), leaf(2), "w2")).sum()
        loss.register_hook(fail)
        with pytest.raises(RuntimeError, match="Simulate error"):
            da.backward(context_id, [loss])
        found = da.explain(context_id)
    # No gradient was sent, so the path has one piece.
    (only,) = found.critical_path
    assert isinstance(only, Stretch)
    assert (only.worker, only.start, only.has_failed) == (0, ROOT, True)


def explain_a_pass_at_rest() -> None:
    with da.context() as context_id:
        unused = rpc.rpc_sync("w1", fastdist.mul, (leaf(1), leaf(2)))
        loss = rpc.rpc_sync("w1", fastdist.add, (leaf(1), leaf(2))).sum()
        before = rpc.get_rpc_timeout()
        # The RPC timeout is also the time after which the root queries the workers.
        rpc.api._set_rpc_timeout(0.3)
        with pytest.raises(RuntimeError, match="stalled: no gradient"):
            da.backward(context_id, [loss], mode="fast")
        rpc.api._set_rpc_timeout(before)
        found = da.explain(context_id)
        asked = unused.grad_fn.message_id
    (last,) = found.critical_path
    assert isinstance(last, Hop) and last.is_unreached and last.message_id == asked
    line = f"w0 -> w1: gradients for message {id_text(asked)}; no root depends on it, which "
    assert f"{line}MulBackward0 made there" in str(found)


def explain_a_loss() -> None:
    with da.context() as context_id:
        loss = (
            mix_at(leaf(1), leaf(2), "w2").sum()
            + rpc.rpc_sync("w1", with_hook, (leaf(3), die)).sum()
        )
        with pytest.raises(WorkerLostError):
            da.backward(context_id, [loss])
        found = da.explain(context_id)
        again = da.explain(context_id)
        with tempfile.TemporaryDirectory() as place:
            for ending in (".html", ".svg", ".dot"):
                found.save(Path(place, f"pass{ending}"))
                assert "w1" in Path(place, f"pass{ending}").read_text()
    for one in (found, again):
        assert one.state == "failed" and one.lost == {1} and set(one.names) == {0, 1, 2}
        words = one.failures[0]
        assert words.startswith("WorkerLostError: ") and "w1" in words, one.failures
        assert one.names[1] == "w1"
        lines = str(one).splitlines()
        assert "  w1 (rank 1): lost" in lines and any("w0 -> w1" in line for line in lines)
        # The pass waited for the lost worker, not for this worker's other work.
        *_, last = one.critical_path
        assert isinstance(last, Hop) and (last.to_worker, last.arrived) == (1, None)
        assert one.describe(last).endswith(f"{id_text(last.message_id)}; w1 was lost")


@pytest.mark.one_in(3)
def test_gradients_never_arrive_before_they_left_not_even_in_the_first_pass(group: Group) -> None:
    group.run_all(join)
    group[0].run(explain_the_very_first_pass)
    group.run_all(leave)


@pytest.mark.one_in(3)
def test_a_pass_that_failed_is_told_with_its_error_and_where_it_happened(group: Group) -> None:
    group.run_all(join)
    group[0].run(explain_a_failure)
    group[0].run(explain_a_failure_at_home)
    group.run_all(leave)


@pytest.mark.one_in(3)
def test_a_pass_that_came_to_rest_is_told_with_what_no_gradient_reached(group: Group) -> None:
    group.run_all(join)
    group[0].run(explain_a_pass_at_rest)
    group.run_all(leave)


@pytest.mark.one_in(3)
def test_a_worker_that_was_lost_during_a_pass_is_named(group: Group) -> None:
    group.run_all(join)
    group[0].run(explain_a_loss)
    for rank in (2, 0):
        group[rank].run(leave_at_once)
        assert group[rank].end() == 0
