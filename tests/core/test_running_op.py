"""The running op of a thread is found on its stack, at any depth inside the op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.autograd.graph import saved_tensors_hooks
from fastdist.core.running_op import running_op
from fastdist.dispatch.op import OPS
from fastdist.nn import functional as F
from fastdist.random_numbers.generator import Generator


def test_outside_of_ops_there_is_none() -> None:
    assert running_op() == ""


def packed(call: Callable[[Any], Any]) -> list[str]:
    """Return the name of the running op each time that a saved tensor is packed or unpacked."""
    seen: list[str] = []

    def note(value: Any) -> Any:
        seen.append(running_op())
        return value

    x = fd.full((2, 3), 0.5, requires_grad=True)
    with saved_tensors_hooks(note, note):
        found = call(x)
        found.sum().backward()
    return seen


@pytest.mark.parametrize(
    ("call", "op"),
    [
        (lambda x: x.tanh(), "tanh"),
        (lambda x: x * x, "mul"),
        (lambda x: x @ x.t(), "matmul"),
        (lambda x: x.softmax(1), "softmax"),
    ],
)
def test_an_op_and_its_gradient_have_its_name(call: Any, op: str) -> None:
    seen = set(packed(call))
    assert op in seen and any(one.startswith("the gradient of ") for one in seen)


@pytest.mark.parametrize(
    ("call", "op"),
    [
        (lambda: fd.empty(3).exponential_(), "exponential_"),
        (lambda: F.dropout(fd.ones(3)), "dropout"),
        (lambda: F.gumbel_softmax(fd.ones(3)), "gumbel_softmax"),
    ],
)
def test_it_is_the_op_that_the_user_called(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any], op: str
) -> None:
    seen: list[str] = []
    known = Generator.reserve

    def noted(self: Generator, *given: Any) -> Any:
        seen.append(running_op())
        return known(self, *given)

    monkeypatch.setattr(Generator, "reserve", noted)
    call()
    assert seen and set(seen) == {op}


@pytest.mark.parametrize(
    ("layers", "op"), [(nn.LSTM, "lstm"), (nn.GRU, "gru"), (nn.RNN, "rnn_tanh")]
)
def test_the_gradient_of_recurrent_layers_has_the_name_that_users_call(
    monkeypatch: pytest.MonkeyPatch, layers: Any, op: str
) -> None:
    seen: list[str] = []
    known = OPS["recurrent_sequence_gradient"].public

    def noted(*given: Any) -> Any:
        seen.append(running_op())
        return known(*given)

    monkeypatch.setattr(OPS["recurrent_sequence_gradient"], "public", noted)
    layers(3, 4)(fd.ones(2, 1, 3))[0].sum().backward()
    assert seen == [f"the gradient of {op}"]
