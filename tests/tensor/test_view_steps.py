"""The steps by which a view of a view is derived from its base."""

from __future__ import annotations

import fastdist
from fastdist.tensor.view_steps import ViewSteps


def test_view_steps_come_in_the_order_in_which_they_were_taken() -> None:
    chain = ViewSteps(ViewSteps(ViewSteps(None, ("a", ())), ("b", ())), ("c", ()))
    assert [op for op, _ in chain] == ["a", "b", "c"]
    assert [op for op, _ in chain.after(2)] == ["c"]
    assert len(chain) == 3


def test_a_view_of_a_view_shares_its_chain_and_follows_its_base() -> None:
    x = fastdist.ones(4, requires_grad=True)
    base = x * 1
    y = base
    for _ in range(500):
        y, before = y.unsqueeze(0).squeeze(0), y
    assert before._extra is not None and before._extra.replay in _chains_before(y)
    base.mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [3.0] * 4


def _chains_before(view: fastdist.Tensor) -> list[ViewSteps | None]:
    assert view._extra is not None and view._extra.replay is not None
    once = view._extra.replay._before
    assert once is not None
    return [once, once._before]
