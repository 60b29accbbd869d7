"""A context's graph over workers can be inspected before, during and after a pass."""

from __future__ import annotations

import pickle
import tempfile
import threading
import weakref
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import ContextError
from fastdist.distributed import rpc
from fastdist.distributed.explain.explanation import Explanation
from fastdist.distributed.explain.pieces import ROOT, Hop, Stretch, critical_path
from fastdist.distributed.rpc.message.ids import id_text
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.on_worker import on_worker, outside
from tests.distributed.autograd.programs import (
    close_gate,
    first_of,
    leaf,
    mix,
    mix_at,
    open_gate,
    wait_at_gate,
    with_hook,
)
from tests.distributed.members import members
from tests.distributed.workers import Group


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 3, rpc_timeout=30, init_timeout=30) as group:
        yield group


def shape(found: Explanation) -> list[tuple[int, int]]:
    """Return the critical path as pairs of workers; a stretch has the same worker twice."""
    return [
        (one.worker, one.worker) if isinstance(one, Stretch) else (one.from_worker, one.to_worker)
        for one in found.critical_path
    ]


@on_worker(0)
def test_after_a_pass_it_says_where_the_time_went() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        loss = mix_at(a, b, "w1", "w2").sum()
        da.backward(context_id, [loss])
        found = da.explain(context_id)
        # The query leaves nothing behind in the context.
        assert len(da._current_context()._send_functions()) == 1
    assert found.state == "over" and found.is_timed and found.names == {0: "w0", 1: "w1", 2: "w2"}
    assert shape(found) == [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 1), (1, 1), (1, 0), (0, 0)]
    assert len(found.hops) == 4 and all(hop.arrived is not None for hop in found.hops)
    assert found.seconds is not None
    took_s = 0.0
    for one in found.critical_path:
        began, ended = (one.began, one.ended) if isinstance(one, Stretch) else one[3:5]
        assert began is not None and ended is not None
        assert not isinstance(one, Stretch) or ended >= began
        took_s += ended - began
    # Each piece begins where the previous one ends.
    assert took_s == pytest.approx(found.seconds, rel=0.2, abs=2e-3)
    text = str(found)
    assert f"context {id_text(context_id)}: backward pass over after" in text
    assert "over 3 workers and 4 messages" in text
    assert "w0 (rank 0): begins the pass, 1 send, 1 receive" in text
    assert text.count(": gradients for message") == 4 and " ms  w1: " in text


@on_worker(0)
def test_before_a_pass_it_tells_of_the_structure_alone() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        loss = mix_at(a, b, "w1", "w2").sum()
        found = da.explain(context_id)
        da.backward(context_id, [loss])
    assert found.state == "not begun" and not found.is_timed and found.seconds is None
    # The roots are not known yet, so the path begins at w1's result.
    assert (
        shape(found)
        == [(1, 1), (1, 2), (2, 2), (2, 1), (1, 1), (1, 0), (0, 0)][: len(shape(found))]
    )
    assert len(shape(found)) == 7
    assert "critical path, by the number of Nodes:" in str(found)


@on_worker(0)
def test_during_a_pass_it_names_what_is_waited_for() -> None:
    a = leaf(1)
    rpc.rpc_sync("w1", close_gate)
    with da.context() as context_id:
        loss = rpc.rpc_sync("w1", with_hook, (a, wait_at_gate)).sum()
        passing = threading.Thread(target=da.backward, args=(context_id, [loss]))
        passing.start()
        found = da.explain(context_id)
        while sum(hop.arrived is not None for hop in found.hops) < 1:
            found = da.explain(context_id)
        outside(rpc.rpc_sync, "w1", open_gate)
        passing.join(30)
        assert da.explain(context_id).state == "over"
    assert found.state == "running" and found.seconds is None
    waiting = [hop for hop in found.hops if hop.arrived is None]
    assert [(hop.from_worker, hop.to_worker) for hop in waiting] == [(1, 0)]
    assert f"no gradients yet for:\n  {found.describe(waiting[0])}" in str(found)


@on_worker(0)
def test_workers_that_others_alone_have_reached_are_asked_as_well() -> None:
    a, b = leaf(1), leaf(2)
    rpc.rpc_sync("w1", close_gate)
    with da.context() as context_id:
        # The caller has no answer yet that names w2.
        answer = rpc.rpc_async("w1", mix_elsewhere_and_wait, (a, b))
        found = da.explain(context_id)
        while 2 not in found.names:
            found = da.explain(context_id)
        known = {worker.name for worker in da._current_context().known_workers()}
        outside(rpc.rpc_sync, "w1", open_gate)
        answer.wait()
    assert found.names == {0: "w0", 1: "w1", 2: "w2"} and known == {"w1"}


def mix_elsewhere_and_wait(a: Tensor, b: Tensor) -> Tensor:
    mixed: Tensor = rpc.rpc_sync("w2", mix, (a, b))
    wait_at_gate(mixed)
    return mixed


@on_worker(0)
def test_the_latest_pass_is_told_of_and_which_results_it_did_not_use() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        first, second = rpc.rpc_sync("w1", mix, (a, b)), rpc.rpc_sync("w2", first_of, (a,))
        da.backward(context_id, [first.sum()], retain_graph=True)
        da.backward(context_id, [second.sum()])
        found = da.explain(context_id)
    # The sum of a hop's two workers names the pair: 1 for w0 and w1, 2 for w0 and w2.
    assert {(hop.from_worker + hop.to_worker, hop.is_unused) for hop in found.hops} == {
        (1, True),
        (2, False),
    }
    unused = next(hop for hop in found.hops if hop.is_unused)
    assert f": notice of no gradients for message {id_text(unused.message_id)}" in found.describe(
        unused
    )


@pytest.mark.parametrize("is_run", [False, True])
@on_worker(0)
def test_pictures_need_nothing_else(is_run: bool) -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        loss = (mix_at(a, b, "w1", "w2") + rpc.rpc_sync("w2", mix, (a, b))).sum()
        if is_run:
            da.backward(context_id, [loss])
        found = da.explain(context_id)
    svg = ElementTree.fromstring(found.to_svg())
    space = "{http://www.w3.org/2000/svg}"
    lines = svg.findall(f"{space}line")
    assert len(lines) == len(found.hops) == 6
    critical = sum(isinstance(one, Hop) for one in found.critical_path)
    assert sum(line.get("class") == "critical" for line in lines) == critical > 0
    names = [text.text for text in svg.findall(f"{space}text")]
    assert {"w0", "w1", "w2"} <= set(names) and "http" not in found.to_svg().split(">", 1)[1]
    dot = found.to_dot()
    assert dot.startswith("digraph") and dot.count("subgraph") == 3 and dot.count("{") == 4
    assert dot.count(" -> w") >= len(found.hops) and "penwidth=3" in dot


@on_worker(0)
def test_it_is_saved_as_the_name_ends() -> None:
    a = leaf(1)
    with da.context() as context_id, tempfile.TemporaryDirectory() as place:
        da.backward(context_id, [rpc.rpc_sync("w1", first_of, (a,)).sum()])
        found = da.explain(context_id)
        for ending, begins in ((".html", "<!doctype html>"), (".svg", "<svg"), (".dot", "digraph")):
            path = Path(place, f"pass{ending}")
            found.save(path)
            assert path.read_text().startswith(begins)
        found.save(f"{place}/pass.txt")
        assert Path(place, "pass.txt").read_text() == f"{found}\n"
        assert str(found).splitlines()[0] in Path(place, "pass.html").read_text()
        with pytest.raises(ValueError, match=r"'pass.png'; known endings: .html, .svg, .dot, .txt"):
            found.save(Path(place, "pass.png"))


def test_a_context_of_one_worker_can_be_explained(agent: FakeAgent) -> None:
    with da.context() as context_id:
        assert da.explain(context_id).critical_path == ()
        loss = leaf(1).sin().sum()
        da.backward(context_id, [loss])
        (only,) = da.explain(context_id).critical_path
        assert isinstance(only, Stretch) and (only.start, only.leaves) == (ROOT, 1)
        del loss, only
        assert da.explain(context_id).critical_path == ()


def test_an_unknown_context_cannot_be_explained(agent: FakeAgent) -> None:
    with pytest.raises(ContextError, match="Could not find autograd context with id: 7"):
        da.explain(7)


@on_worker(0)
def test_it_takes_an_id_as_errors_and_the_log_write_it() -> None:
    with da.context() as context_id:
        da.backward(context_id, [rpc.rpc_sync("w1", first_of, (leaf(1),)).sum()])
        for given in (id_text(context_id), f" {id_text(context_id)} ", str(context_id)):
            found = da.explain(given)
            assert (found.context_id, found.state) == (context_id, "over")
    assert repr(found) == f"<Explanation of context {id_text(context_id)}: over, 2 workers>"
    over = rf"with id: {context_id} \({id_text(context_id)}\): it is over; use the id inside of the"
    with pytest.raises(ContextError, match=over):
        da.explain(context_id)


def test_what_is_no_id_is_refused_in_words(agent: FakeAgent) -> None:
    with pytest.raises(ValueError, match=r"^explain\('x'\): expected the id .* such as '0:5'$"):
        da.explain("x")
    given: Any
    for given in (None, 1.5, True):
        with pytest.raises(TypeError, match=rf"^explain\(context_id\): .*, got {given!r}$"):
            da.explain(given)
    unknown = r"with id: 12 \(0:12\): it is over, or never reached this worker; use the id inside"
    with pytest.raises(ContextError, match=unknown):
        da.explain(12)


@on_worker(0)
def test_of_roots_that_nobody_holds_it_tells_what_left_for_them_and_when() -> None:
    a, b = leaf(1), leaf(2)
    with da.context() as context_id:
        root = mix_at(a, b, "w1", "w2").sum()
        gone = threading.Event()
        node = weakref.ref(root.grad_fn, lambda _: gone.set())
        da.backward(context_id, [root])
        del root
        # The thread that ran the pass may hold the root a moment longer.
        assert gone.wait(10.0) and node() is None
        found = da.explain(context_id)
    first, hop = found.critical_path[:2]
    assert isinstance(first, Stretch) and isinstance(hop, Hop)
    assert (first.worker, first.start, first.nodes, first.began) == (0, ROOT, 0, 0.0)
    assert first.ends == (hop.message_id,) and first.ended == hop.left
    assert f"w0: from the roots to message {id_text(hop.message_id)}\n" in str(found)
    assert "w0 (rank 0): begins the pass, " in str(found)
    lengths = [o.ended - o.began for o in found.critical_path if isinstance(o, Stretch)]
    lengths += [o.arrived - o.left for o in found.critical_path if isinstance(o, Hop)]
    assert sum(lengths) == pytest.approx(found.seconds, rel=0.2, abs=2e-3)


def test_of_all_that_end_with_their_worker_the_last_to_begin_was_waited_for() -> None:
    stretches = [
        Stretch(0, ROOT, (1, 2), 5, 0, 0.0, 0.1),
        Stretch(1, 1, (3,), 5, 0, 0.2, 0.3),
        Stretch(2, 2, (4,), 5, 0, 0.2, 0.8),
        Stretch(0, 3, (), 2, 1, 0.4, 1.0),
        Stretch(0, 4, (), 2, 1, 0.9, 1.0),
    ]
    hops = [
        *(Hop(1, 0, 1, 0.1, 0.2), Hop(2, 0, 2, 0.1, 0.2)),
        *(Hop(3, 1, 0, 0.3, 0.4), Hop(4, 2, 0, 0.8, 0.9)),
    ]
    for order in (stretches, stretches[::-1]):
        path = critical_path(order, hops)
        assert [one.message_id for one in path if isinstance(one, Hop)] == [2, 4]


def test_the_path_is_that_of_whoever_was_waited_for_last() -> None:
    # Worker 1 is quick, worker 2 slow; worker 3 needs the gradients of both.
    stretches = [
        Stretch(0, ROOT, (1, 2), 5, 0, 0.0, 0.1),
        Stretch(1, 1, (3,), 50, 0, 0.2, 0.3),
        Stretch(2, 2, (4,), 5, 0, 0.2, 0.8),
        Stretch(2, 6, (), 5, 1, 0.5, 0.6),  # sends no gradients to other workers
        Stretch(3, 3, (5,), 5, 0, 0.4, 1.0),
        Stretch(3, 4, (5,), 5, 0, 0.9, 1.0),
        Stretch(0, 5, (), 5, 1, 1.1, 1.2),
    ]
    hops = [
        Hop(1, 0, 1, 0.1, 0.2),
        Hop(2, 0, 2, 0.1, 0.2),
        Hop(3, 1, 3, 0.3, 0.4),
        Hop(4, 2, 3, 0.8, 0.9),
        Hop(5, 3, 0, 1.0, 1.1),
    ]
    path = critical_path(stretches, hops)
    assert [one.message_id for one in path if isinstance(one, Hop)] == [2, 4, 5]
    untimed = [one._replace(began=None, ended=None) for one in stretches]
    path = critical_path(untimed, hops)
    assert [one.message_id for one in path if isinstance(one, Hop)] == [1, 3, 5]


def test_an_explanation_that_was_pickled_under_its_former_path_loads() -> None:
    by_former_path = b"cfastdist.distributed.autograd.explanation\nExplanation\n."
    assert pickle.loads(by_former_path) is Explanation
