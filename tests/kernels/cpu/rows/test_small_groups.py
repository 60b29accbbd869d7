"""Norms of channels and second gradients have the same bits with NumPy and with compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.rows import small_columns, small_groups, small_loops, small_slopes
from fastdist.kernels.cpu.small.call_facts import CallFacts

FLOAT = np.dtype(np.float32)
ALL = (True, True, True)


def facts_of(shapes: Any, numbers: tuple[Any, ...], shape: Any = None) -> CallFacts:
    count = len(shapes)
    given = shapes[0] if shape is None else shape
    return CallFacts(tuple(shapes), (FLOAT,) * count, (True,) * count, given, FLOAT, numbers, None)


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(0.5, 2.0, shape).astype(FLOAT)


def group_norm() -> Iterator[Any]:
    for shape in ((3, 4, 10), (5, 6), (2, 6, 5, 7)):
        channels = shape[1]
        facts = facts_of([shape, (channels,), (channels,)], (2, 1e-5))
        x, w, g = draw(*shape), draw(channels), draw(*shape)[::-1].copy()
        run, backward = small_groups.group_norm(facts), small_groups.group_norm_gradient(facts)
        assert run is not None and backward is not None and backward[0] is not None
        out, *others = run(x, w, w)
        yield from (out, *others, *backward[0](g, others, x, w, ALL))


def batch_norm() -> Iterator[Any]:
    facts = facts_of([(9, 4), (4,), (4,)], (1e-5,))
    x, w, g = draw(9, 4), draw(4), draw(9, 4)[::-1].copy()
    out, *others = small_columns.batch_norm(facts)(x, w, None)
    (backward, *_) = small_columns.batch_norm_gradient(facts)
    assert backward is not None
    yield from (out, *others, *backward(g, others, x, w, ALL))
    running = draw(4), draw(4)
    small_columns.follower(4, 9, FLOAT, 0.3)(*others, *running)
    yield from running


def by_known() -> Iterator[Any]:
    for places in (10, 40):
        yield from known_of(places)


def known_of(places: int) -> Iterator[Any]:
    facts = facts_of([(3, 4, places), *[(4,)] * 4], (1e-5,))
    x, g, w = draw(3, 4, places), draw(3, 4, places)[::-1].copy(), draw(4)
    run, backward = small_groups.by_known(facts), small_groups.by_known_gradient(facts)
    assert run is not None and backward is not None and backward[0] is not None
    yield run(x, w, w, w, None)
    yield from backward[0](g, x, w, w, w, (True, False, False, True, True))


def second_gradients() -> Iterator[Any]:
    q, g, x, w = draw(6, 8), draw(6, 8)[::-1].copy(), draw(6, 8)[:, ::-1].copy(), draw(8)
    column = draw(6, 1)
    for name in ("small_softmax_second", "small_log_softmax_second"):
        run, _ = small_slopes.softmax_gradient(facts_of([(6, 8)] * 2, ()), name)
        assert run is not None
        yield from run(q, g, np.log(x / x.sum(1, keepdims=True)))
    facts = facts_of([(6, 8), (6, 8), (8,), (6, 1), (6, 1)], ())
    run = small_slopes.norm_gradient(facts, "small_norm_second")[0]
    assert run is not None
    yield from run(q, g, x, w, column, column, (True,) * 5)
    run = small_slopes.norm_gradient(facts, "small_rms_second")[0]
    assert run is not None
    yield from run(q, g, x, w, column, (True,) * 4)


@pytest.mark.parametrize("results", [group_norm, batch_norm, by_known, second_gradients])
def test_results_have_the_same_bits_with_and_without_loops(
    results: Callable[[], Iterator[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for serves in (
        lambda *_: None,
        lambda name, dtype: small_loops.compiled(name, dtype.name),
    ):
        monkeypatch.setattr(small_loops, "loop_or_none", serves)
        found.append([one.tobytes() for one in results()])
    assert len(found[0]) > 2
    assert found[0] == found[1]
