"""Hooks on saved tensors pack and unpack them, and cost nothing for code without hooks."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.autograd.graph import (
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from fastdist.graph.modes import modes


class Recorder:
    """Packs tensors as NumPy arrays and records the shapes that it packs and unpacks."""

    def __init__(self) -> None:
        self.packed: list[tuple[int, ...]] = []
        self.unpacked: list[tuple[int, ...]] = []

    def pack(self, tensor: fd.Tensor) -> Any:
        self.packed.append(tuple(tensor.shape))
        return tensor.detach().numpy().copy()

    def unpack(self, array: Any) -> fd.Tensor:
        self.unpacked.append(array.shape)
        return fd.from_numpy(array)

    def hooks(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self.pack, self.unpack)


def leaf(*values: float) -> fd.Tensor:
    return fd.tensor(values, requires_grad=True)


def test_saved_operands_are_packed_and_unpacked() -> None:
    recorder, a, b = Recorder(), leaf(1.0, 2.0), leaf(3.0, 4.0)
    with recorder.hooks():
        y = a * b
    assert recorder.packed == [(2,), (2,)] and recorder.unpacked == []
    y.sum().backward()
    assert recorder.unpacked == [(2,), (2,)]
    assert a.grad.tolist() == [3.0, 4.0] and b.grad.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "apply",
    [
        lambda x: x.exp(),
        lambda x: x * 3.0,
        lambda x: x.pow(2),
        lambda x: x.softmax(0),
        lambda x: x.prod(),
        lambda x: x.reshape(2, 1) @ x.reshape(1, 2),
        lambda x: (x.clone() * 2).mul_(x),
        lambda x: x.clone().exp_(),
        lambda x: fd.nn.functional.layer_norm(x, (2,)),
        lambda x: fd.cumprod(x, 0),
        lambda x: (x * 1)[0:1].exp_(),
    ],
)
def test_gradients_are_those_without_hooks(apply: Any) -> None:
    x, y = leaf(0.5, 2.0), leaf(0.5, 2.0)
    apply(x).sum().backward()
    with Recorder().hooks():
        found = apply(y)
    found.sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-6)


def test_numbers_are_no_saved_tensors() -> None:
    recorder = Recorder()
    with recorder.hooks():
        leaf(1.0) * 2.0
    assert recorder.packed == []


def test_gradients_of_gradients_pass_through_hooks() -> None:
    x = leaf(2.0)
    with Recorder().hooks():
        y = x.pow(3).exp().log()
        (g,) = fd.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = fd.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(second.numpy(), [12.0], rtol=1e-5)


class Cube(fd.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: fd.Tensor) -> fd.Tensor:
        out = x * x * x
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx: Any, g: fd.Tensor) -> fd.Tensor:
        x, out = ctx.saved_tensors
        assert out.grad_fn.next_functions == ctx.next_functions
        return g * 3 * out / x


def test_a_function_s_saved_tensors_go_through_hooks() -> None:
    recorder, x = Recorder(), leaf(2.0, 3.0)
    with recorder.hooks():
        y = Cube.apply(x)
    assert recorder.packed == [(2,), (2,)]
    y.sum().backward()
    assert x.grad.tolist() == [12.0, 27.0]


def test_a_second_pass_finds_nothing_saved() -> None:
    x = leaf(1.0)
    with Recorder().hooks():
        y = x.exp()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_the_innermost_hooks_count_and_blocks_end() -> None:
    outer, inner = Recorder(), Recorder()
    with outer.hooks():
        with inner.hooks():
            leaf(1.0).exp()
            Cube.apply(leaf(1.0))
        leaf(1.0).exp()
    leaf(1.0).exp()
    assert len(inner.packed) == 3 and len(outer.packed) == 1
    assert modes.tracers == modes.special == 0


def test_hooks_are_a_thread_s_own() -> None:
    recorder = Recorder()
    with recorder.hooks():
        thread = threading.Thread(target=lambda: leaf(1.0).exp())
        thread.start()
        thread.join(10)
    assert recorder.packed == []


def test_packing_records_nothing_and_may_not_write() -> None:
    def spoil(tensor: fd.Tensor) -> fd.Tensor:
        assert not fd.is_grad_enabled()
        return tensor.add_(1)

    x = leaf(1.0)
    with saved_tensors_hooks(spoil, lambda t: t), pytest.raises(RuntimeError, match="pack hook is"):
        x.exp()


@pytest.mark.parametrize(
    ("unpack", "kind", "text"),
    [
        (lambda _: "x", TypeError, "expected to be a Tensor but got result of type str"),
        (lambda _: fd.ones(3), RuntimeError, r"returned float32 of shape \(3,\)"),
        (lambda _: fd.ones(2, dtype=fd.float64), RuntimeError, "returned float64"),
    ],
)
def test_what_does_not_fit_is_not_unpacked(unpack: Any, kind: type[Exception], text: str) -> None:
    with saved_tensors_hooks(lambda t: None, unpack):
        y = leaf(1.0, 2.0).exp()
    with pytest.raises(kind, match=text):
        y.sum().backward()


def test_hooks_can_be_refused() -> None:
    hooks = Recorder().hooks()
    refusal = pytest.raises(RuntimeError, match="not here")
    with disable_saved_tensors_hooks("not here"), refusal, hooks:
        pass
    refusal = pytest.raises(RuntimeError, match="not now")
    with hooks, refusal, disable_saved_tensors_hooks("not now"):
        pass
    with Recorder().hooks():
        pass


def test_saved_tensors_may_wait_on_the_cpu() -> None:
    x = fd.tensor([1.0, 2.0], device="sim:0", requires_grad=True)
    with save_on_cpu(pin_memory=True):
        y = x.exp() * x
    y.sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), [2 * np.e, 3 * np.e**2], rtol=1e-6)


def test_a_constant_that_was_packed_is_a_tensor_to_a_pass_that_records_itself() -> None:
    recorder, a, constant = Recorder(), leaf(1.0, 2.0), fd.tensor([3.0, 4.0])
    with recorder.hooks():
        y = a * a * constant
    (first,) = fd.autograd.grad(y.sum(), a, create_graph=True)
    assert first is not None and first.tolist() == [6.0, 16.0]
    (second,) = fd.autograd.grad(first.sum(), a)
    assert second is not None and second.tolist() == [6.0, 8.0]
