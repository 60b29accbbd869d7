"""Workers' reports on a pass are converted to the clock of the worker that calls explain."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastdist.distributed.autograd.backward_pass import PassState
from fastdist.distributed.explain import explanation
from fastdist.distributed.explain.clocks import Sighting
from fastdist.distributed.explain.pieces import ROOT, Hop, Stretch

MS = 1_000_000


def report(name: str, stretches: list[Any], receives: dict[int, int], times: Any) -> dict[str, Any]:
    found = {"name": name, "stretches": stretches, "receives": receives, "times": times}
    return {**found, "failure": None, "leaves": 2, "sends": {}}


def test_what_happened_elsewhere_is_told_in_the_time_of_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explanation, "get_instance", lambda: SimpleNamespace(worker_id=0))
    # The clock of w1 is a second behind.
    reports = {
        0: report(
            "w0", [(ROOT, 3, 0, [1])], {1: 1}, (5000 * MS, 5750 * MS, {1: 5100 * MS}, {}, [])
        ),
        1: report("w1", [(1, 5, 2, [])], {}, (4150 * MS, 4700 * MS, {}, {1: 4200 * MS}, [])),
    }
    seen = {0: Sighting(0, 0, 0), 1: Sighting(0, 1000 * MS, 0)}
    latest: Any = SimpleNamespace(began_at=5000 * MS, state=PassState.OVER, failure=None)
    found = explanation._explanation(7, latest, reports, seen, {})
    # A stretch with leaves ends when its worker has finished its part.
    assert found.stretches == (
        Stretch(0, ROOT, (1,), 3, 0, 0.0, 0.1),
        Stretch(1, 1, (), 5, 2, 0.2, 0.7),
    )
    assert found.hops == (Hop(1, 0, 1, 0.1, 0.2, False),)
    assert (found.state, found.seconds, found.names) == ("over", 0.75, {0: "w0", 1: "w1"})


def test_who_was_lost_to_another_worker_is_named_and_not_who_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = SimpleNamespace(latest_pass=lambda: None, known_workers=list)
    container = SimpleNamespace(worker_id=0, retrieve_context=lambda context_id: context)
    monkeypatch.setattr(explanation, "get_instance", lambda: container)
    told = {
        0: {**report("w0", [], {}, None), "workers": {1: "w1"}, "lost": {}},
        # An earlier life of rank 0 was lost; the life that calls explain is alive.
        1: {**report("w1", [], {}, None), "workers": {}, "lost": {0: "w0", 2: "w2"}},
    }
    monkeypatch.setattr(explanation, "_ask", lambda worker, *_: (told[worker], Sighting(0, 0, 0)))
    found = explanation.explain(7)
    assert found.lost == {2} and found.names == {0: "w0", 1: "w1", 2: "w2"}
