"""The short path of pointwise ops for numbers, three tensors, and integer or bool dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import autograd
from fastdist.autograd import forward_ad
from fastdist.dispatch.pointwise import PointwiseOp
from fastdist.tensor.constants import constant
from tests.dispatch.paths import general_calls, gradient_of

F = fd.nn.functional
MASK = fd.tensor(np.arange(12).reshape(3, 4) % 3 == 0)
COUNTS = fd.tensor(np.arange(4))
TWO = fd.tensor(2.0, dtype=fd.float64)

CALLS: dict[str, Callable[[Any], Any]] = {
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp(min=0)": lambda x: x.clamp(min=0),
    "where": lambda x: fd.where(MASK, x, x * 2),
    "where number": lambda x: fd.where(MASK, x, 0.0),
    "where row": lambda x: fd.where(MASK, x, x[0]),
    "masked_fill": lambda x: x.masked_fill(MASK, -0.0),
    "lerp": lambda x: x.lerp(x * 2, 0.25),
    "add alpha": lambda x: x.add(x, alpha=2),
    "addcmul": lambda x: fd.addcmul(x, x, x, value=0.5),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "elu": lambda x: F.elu(x, 0.5),
    "minus zero": lambda x: x * -0.0,
    "0d": lambda x: x.sum() * x.mean(),
    "transposed": lambda x: x.t() * x.t(),
    "mixed": lambda x: x * x.t().contiguous().t(),
    "of a mask": lambda x: x * MASK,
    "of a row of counts": lambda x: COUNTS - x,
    "of another dtype without axes": lambda x: x / TWO,
    "of a half type": lambda x: x + x.detach().half(),
    "column": lambda x: x[:, :1].contiguous() * x[0],
}
every_call = pytest.mark.parametrize("name", CALLS)


def leaf() -> Any:
    values = np.random.default_rng(1).standard_normal((3, 4))
    return fd.tensor(values.astype(np.float32), requires_grad=True)


@every_call
def test_a_later_call_takes_the_short_path(name: str) -> None:
    x = leaf()
    for _ in range(3):
        CALLS[name](x), CALLS[name](x.detach())
    with general_calls(PointwiseOp) as went:
        CALLS[name](x), CALLS[name](x.detach())
    assert went == []


@pytest.mark.one_in(4)
@every_call
def test_results_are_those_of_the_general_path(name: str) -> None:
    call, x = CALLS[name], leaf()
    for _ in range(3):
        found, gradient = call(x), gradient_of(call, x)
    with autograd.set_detect_anomaly(True):
        expected, wanted = call(x), gradient_of(call, x)
    assert found._layout is expected._layout
    np.testing.assert_array_equal(
        found.detach().numpy().view(np.int32), expected.detach().numpy().view(np.int32)
    )
    np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-7)


@every_call
def test_gradients_may_be_differentiated_again(name: str) -> None:
    call, x = CALLS[name], leaf()
    for _ in range(3):
        out = call(x)
    (recorded,) = autograd.grad(
        out, x, fd.ones_like(out.detach()) * 0.5, create_graph=True, allow_unused=True
    )
    np.testing.assert_allclose(recorded.detach().numpy(), gradient_of(call, x), rtol=1e-5)


@every_call
def test_tangents_are_carried_past_the_short_path(name: str) -> None:
    call, x = CALLS[name], leaf().detach()
    call(x), call(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, fd.ones_like(x))
        tangent = forward_ad.unpack_dual(call(dual)).tangent
    moving = x.clone().requires_grad_()
    (g,) = autograd.grad(call(moving).sum(), moving)
    np.testing.assert_allclose(tangent.sum().item(), g.sum().item(), rtol=1e-4, atol=1e-5)


def test_whole_and_bool_tensors_have_short_ways() -> None:
    a, b = fd.arange(4), fd.tensor([3, 2, 1, 1])
    for _ in range(3):
        results = [a + b, a * 2, a - 1, a == 2, a < b, a // b, a & b, MASK & MASK, ~MASK, -a]
    with general_calls(PointwiseOp) as went:
        results = [a + b, a * 2, a - 1, a == 2, a < b, a // b, a & b, MASK & MASK, ~MASK, -a]
    assert went == []
    x, y = a.numpy(), b.numpy()
    expected = [x + y, x * 2, x - 1, x == 2, x < y, x // y, x & y, MASK.numpy(), ~MASK.numpy(), -x]
    for ours, theirs in zip(results, expected, strict=True):
        assert ours.dtype.numpy == theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs)


def test_numbers_still_promote_whole_tensors() -> None:
    a = fd.arange(3)
    for _ in range(2):
        assert (a * 1).dtype is fd.int64
        assert (a * 1.0).dtype is fd.float32
        assert (a * True).dtype is fd.int64
        assert (a + 0).dtype is fd.int64 and (a + 0.0).dtype is fd.float32
        assert (fd.tensor([1], dtype=fd.uint8) + 300).dtype is fd.uint8


def test_zeros_keep_their_sign() -> None:
    x = fd.tensor([1.0, -1.0])
    for _ in range(2):
        for zero in (0, 0.0, -0.0):
            found = np.signbit((x * zero).numpy()).tolist()
            assert found == np.signbit(x.numpy() * zero).tolist()


def test_constants_of_one_value_are_one_tensor_and_may_not_be_written() -> None:
    x, a = fd.ones(2), fd.arange(2)
    assert constant(0, x) is constant(0, x)
    assert constant(-0.0, x) is not constant(0.0, x)
    assert constant(1, a) is constant(1, a) and constant(1, a) is not constant(1, x)
    assert constant(1.0, a) == 1.0 and constant(True, a) is True
    assert np.isnan(constant(float("nan"), x))
    assert not constant(0, x)._array.flags.writeable


def test_division_of_whole_numbers_by_zero_raises_each_time() -> None:
    a, zeros = fd.arange(3), fd.zeros(3, dtype=fd.int64)
    for _ in range(2):
        a // fd.ones(3, dtype=fd.int64)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            a // zeros


def test_what_is_no_bool_mask_is_refused_each_time() -> None:
    x = leaf().detach()
    for _ in range(2):
        fd.where(MASK, x, x)
        with pytest.raises(RuntimeError):
            x.masked_fill(x, 1.0)


def test_short_ways_are_silent() -> None:
    x = fd.tensor([[float("inf"), float("nan"), 0.0, -1.0]] * 3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in CALLS:
            for _ in range(3):
                CALLS[name](x).sum().backward()
        for _ in range(2):
            (x.detach().sum() / 0.0).log()


def test_large_tensors_go_the_compiled_way() -> None:
    x = fd.tensor(np.linspace(-1, 1, 9000, dtype=np.float32), requires_grad=True)
    for _ in range(3):
        out = x.clamp(-0.5, 0.5)
    out.backward(fd.ones(9000))
    np.testing.assert_array_equal(out.detach().numpy(), np.clip(x.detach().numpy(), -0.5, 0.5))
    np.testing.assert_array_equal(x.grad.numpy(), np.abs(x.detach().numpy()) <= 0.5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "text", ["x * y", "x ** y", "x.mul_(y)", "x.pow_(y)", "fd.mul(x, y, out=x)"]
)
@pytest.mark.parametrize("dtype", [fd.float32, fd.float16])
def test_each_call_of_large_tensors_takes_its_own_number(text: str, dtype: fd.dtype) -> None:
    x = fd.rand(40000, dtype=dtype) + 0.5
    for number in (0.7, 2.0, 0.7, 3.0):
        for y in (number, fd.tensor(number, dtype=dtype), fd.full((40000,), number, dtype=dtype)):
            few, got = x[:50].clone(), eval(text, {"x": x.clone(), "y": y, "fd": fd})
            y = y[:50] if isinstance(y, fd.Tensor) and y.dim() else y
            wanted = eval(text, {"x": few, "y": y, "fd": fd})
            fd.testing.assert_close(got[:50], wanted)


def test_out_and_refusals_work_after_short_calls() -> None:
    x = leaf().detach()
    for _ in range(3):
        x.clamp(0, 1)
    out = fd.empty(3, 4)
    assert fd.clamp(x, 0, 1, out=out) is out
    with pytest.raises(TypeError):
        fd.where(MASK, x, "three")
    with pytest.raises(RuntimeError):
        x.clamp()


def test_a_number_that_a_dtype_does_not_hold_is_refused_each_time() -> None:
    x, mask = fd.ones(2, dtype=fd.uint8), fd.tensor([True, False])
    assert x.masked_fill(mask, fd.tensor(3)).tolist() == [3, 1]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="without overflow: 300"):
            x.masked_fill(mask, fd.tensor(300))


def test_a_number_that_lifts_a_dtype_lifts_that_of_its_own_call_alone() -> None:
    x = fd.tensor([1, 3], dtype=fd.uint8)
    for _ in range(2):
        assert x.clamp(max=2.5).tolist() == [1.0, 2.5]
        assert x.clamp(max=2).dtype is fd.uint8


def test_what_is_cast_is_written_in_place_and_into_out_on_the_short_path() -> None:
    x, out = fd.ones(4), fd.empty(4)
    for _ in range(2):
        x.add_(COUNTS), fd.mul(COUNTS, x, out=out)
    with general_calls(PointwiseOp) as went:
        x.add_(COUNTS), fd.mul(COUNTS, x, out=out)
    assert (went, x.tolist(), out.tolist()) == ([], [1, 4, 7, 10], [0, 4, 14, 30])


def test_a_layout_that_is_new_to_an_op_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(rows: int) -> None:
        x = fd.ones(rows, 3, requires_grad=True)
        (x * x / fd.full((rows, 3), 2.0)).lerp(x.exp(), 0.5).sum().backward()

    step(5)

    def refuse(source: str, name: str, names: dict[str, Any]) -> Any:
        raise AssertionError(f"compiled again: {source}")

    for module in (
        "kernels.cpu.pointwise.numpy_pointwise",
        "dispatch.short_path",
        "dispatch.pointwise_route",
    ):
        monkeypatch.setattr(f"fastdist.{module}.define_silent", refuse)
    step(7)
