"""Variable._execution_engine.queue_callback runs functions at the end of a backward pass."""

from __future__ import annotations

import pytest

import fastdist as fd
from fastdist.autograd import Variable


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_callback_runs_once_after_all_gradients_are_there(device: str) -> None:
    queue = Variable._execution_engine.queue_callback
    x = fd.ones(2, device=device, requires_grad=True)
    seen: list[object] = []

    def note() -> None:
        seen.append(None if x.grad is None else x.grad.tolist())
        if len(seen) == 1:
            queue(note)

    y = x * 3
    y.register_hook(lambda grad: queue(note))
    y.sum().backward()
    assert seen == [[3.0, 3.0]] * 2


def test_outside_of_a_backward_pass_it_is_refused() -> None:
    with pytest.raises(RuntimeError, match="can only be installed during backward pass"):
        Variable._execution_engine.queue_callback(print)
