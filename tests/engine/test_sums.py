"""Several gradients of one output are added, in place only if the pass owns the memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, backward, grad
from fastdist.engine import inline, inline_grad, input_buffer
from fastdist.engine.backward import grad as engine_grad
from fastdist.engine.backward import modes_engine
from fastdist.engine.engine import engine
from fastdist.engine.graph_task import Capture, ExecInfo, GraphTask
from fastdist.engine.input_buffer import InputBuffer
from fastdist.engine.ready_queue import ReadyQueue


class Both(Function):
    """A Function with two outputs of different lengths."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2.0, x.sum()

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> Tensor:
        return g * 2.0 + h


class Nothing(Function):
    """A Function whose backward returns no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


def ones() -> Tensor:
    return fd.ones(2, requires_grad=True)


def gradient_of(y: Tensor, x: Tensor, by: str) -> list[float]:
    if by == "grad":
        (g,) = grad(y, x)
    else:
        y.backward()
        g = x.grad
    assert g is not None
    return g.tolist()


@pytest.mark.parametrize("by", ["backward", "grad"])
def test_two_gradients_of_one_of_two_outputs_add_up(loop: str, by: str) -> None:
    x = ones()
    first, second = Both.apply(x)
    assert gradient_of((first * 3.0 + first * 4.0).sum() + second, x, by) == [15.0, 15.0]


@pytest.mark.parametrize("by", ["backward", "grad"])
@pytest.mark.parametrize(("output", "expected"), [(0, [2.0, 2.0]), (1, [1.0, 1.0])])
def test_one_of_two_outputs_alone_may_be_used(
    loop: str, by: str, output: int, expected: list[float]
) -> None:
    x = ones()
    assert gradient_of(Both.apply(x)[output].sum(), x, by) == expected


def test_a_node_that_gets_no_gradient_gives_none(loop: str) -> None:
    x = ones()
    y = Nothing.apply(x * 2.0)
    assert grad(y.sum(), x, retain_graph=True, allow_unused=True) == (None,)
    y.sum().backward()
    assert x.grad is None


def test_a_leaf_does_not_keep_a_gradient_that_was_given_where_others_give_it_none(
    loop: str,
) -> None:
    x, given = ones(), fd.ones(2)
    backward([x.view(2), Nothing.apply(x).sum()], [given, None])
    assert x.grad is not None
    x.grad.add_(1.0)
    assert given.tolist() == [1.0, 1.0]


def test_leaves_that_one_gradient_comes_to_do_not_share_it(loop: str) -> None:
    x, w, given = ones(), ones(), fd.ones(2)
    (x + w).backward(given)
    assert x.grad is not None and w.grad is not None
    x.grad.add_(1.0)
    assert given.tolist() == w.grad.tolist() == [1.0, 1.0]


def test_a_leaf_does_not_keep_a_gradient_that_a_view_hands_on(loop: str) -> None:
    x, given = ones(), fd.ones(2)
    x.view(2).backward(given)
    assert x.grad is not None
    x.grad.add_(1.0)
    assert given.tolist() == [1.0, 1.0]


def test_a_third_gradient_is_added_into_the_sum_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = list[Any]()

    def sum_of(a: Any, b: Any) -> Any:
        sums.append(a + b)
        return sums[-1]

    for module in (inline, inline_grad):
        monkeypatch.setattr(module, "sum_of", sum_of)
    x = ones()
    views = [x.view(2) for _ in range(3)]
    backward(views, [fd.ones(2) for _ in views])
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]
    assert len(sums) == 1 and np.shares_memory(x.grad.numpy(), sums[0])
    (g,) = grad([x.view(2) for _ in views], x, [fd.ones(2) for _ in views])
    assert g is not None and g.tolist() == [3.0, 3.0]
    assert len(sums) == 2 and np.shares_memory(g.numpy(), sums[1])


def test_a_leaf_takes_the_sum_that_a_pass_of_the_engine_has_made_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(modes_engine, "always", True)
    add, sums = input_buffer.add_gradients, list[Tensor]()

    def add_gradients(*arguments: Any) -> Tensor:
        sums.append(add(*arguments))
        return sums[-1]

    monkeypatch.setattr(input_buffer, "add_gradients", add_gradients)
    x = ones()
    backward([x.view(2), x.view(2)], [fd.ones(2), fd.ones(2)])
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]
    assert np.shares_memory(x.grad.numpy(), sums[-1].numpy())


def test_a_post_hook_sees_the_gradient_of_the_second_output_that_is_used(loop: str) -> None:
    seen = list[tuple[list[float], fd.device]]()
    y = Both.apply(ones())[1].exp()
    y.grad_fn.register_hook(lambda inputs, _: seen.append((inputs[0].shape, inputs[0].device)))
    y.backward()
    assert seen == [((), fd.device("cpu"))]


def test_grad_records_itself_only_where_that_is_asked_for(loop: str) -> None:
    x = ones()
    y = x.pow(3).sum()
    (recorded,) = engine_grad([y], [x], create_graph=True)
    (plain,) = engine_grad([y], [x])
    assert recorded is not None and recorded.requires_grad
    assert plain is not None and not plain.requires_grad


def test_who_captures_hears_whether_the_gradient_is_the_passes_own() -> None:
    x, heard = ones(), list[tuple[list[float], bool]]()
    task = GraphTask(keep_graph=False, create_graph=False, depth=0, cpu_ready_queue=ReadyQueue())
    capture = Capture(0, 0)
    capture.hooks.append(lambda g, mine: (heard.append((g.tolist(), mine)), g)[1])
    info = task.exec_info[x._edge] = ExecInfo()
    info.captures, task.captured_vars = [capture], [None]
    for fresh in (False, True):
        buffer = InputBuffer(1)
        buffer.add(0, fd.ones(2) * 2.0, fresh)
        engine()._evaluate(task, x._edge, buffer, task.cpu_ready_queue)
    assert heard == [([2.0, 2.0], False), ([2.0, 2.0], True)]


def test_an_input_that_is_no_tensor_is_refused() -> None:
    x = ones()
    with pytest.raises(RuntimeError, match=r"^all inputs have to be Tensors .* got float: inputs"):
        grad(x.sum(), [x, 3.0])  # type: ignore[list-item]
