"""In-place ops take the short path if nothing is recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.autograd import forward_ad
from fastdist.dispatch.call import InPlace

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(y),
    "add_(alpha)": lambda x, y: x.add_(y, alpha=-0.5),
    "sub_(number)": lambda x, y: x.sub_(2, alpha=3),
    "mul_(row)": lambda x, y: x.mul_(y[0]),
    "mul_(self)": lambda x, y: x.mul_(x),
    "div_": lambda x, y: x.div_(2.0),
    "addcmul_": lambda x, y: x.addcmul_(y, y, value=0.5),
    "addcdiv_": lambda x, y: x.addcdiv_(y, y, value=-0.5),
    "lerp_": lambda x, y: x.lerp_(y, 0.25),
    "exp_": lambda x, y: x.exp_(),
    "relu_": lambda x, y: x.relu_(),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 2, 7.0),
    "+=": lambda x, y: x.__iadd__(y),
    "view": lambda x, y: (x.t().add_(y.t()), x)[1],
    "part": lambda x, y: (x[:, 1:].mul_(y[:, :2]), x)[1],
    "parts of one": lambda x, y: (x[1:].add_(x[:1]), x)[1],
}
every_call = pytest.mark.parametrize("name", CALLS)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the names of the ops that take the general path."""
    went: list[str] = []
    general = InPlace.general

    def spy(op: Any, *args: Any) -> Any:
        went.append(op.functional_op.name)
        return general(op, *args)

    monkeypatch.setattr(InPlace, "general", spy)
    return went


def tensors(dtype: Any = fd.float32) -> tuple[Any, Any]:
    values = np.arange(9.0).reshape(3, 3) / 4
    return fd.tensor(values, dtype=dtype), fd.tensor(values + 1, dtype=dtype)


@every_call
def test_a_later_call_goes_the_short_way_and_does_the_same(name: str, slow: list[str]) -> None:
    call = CALLS[name]
    first, y = tensors()
    call(first, y)
    for _ in range(2):
        again, y = tensors()
        call(again, y)
    slow.clear()
    last, y = tensors()
    before = last._version
    found = call(last, y)
    assert slow == [] and found is last and last._version == before + 1
    np.testing.assert_array_equal(last.numpy(), first.numpy())


@every_call
def test_frozen_parameters_change_at_once_within_no_grad(name: str, slow: list[str]) -> None:
    call = CALLS[name]
    plain, y = tensors()
    call(plain, y), call(tensors()[0], y), call(tensors()[0], y)
    leaf, y = tensors()
    leaf.requires_grad_()
    slow.clear()
    with fd.no_grad():
        call(leaf, y)
    assert slow == [] and leaf.is_leaf
    np.testing.assert_array_equal(leaf.detach().numpy(), plain.numpy())


def test_leaves_results_and_their_views_keep_their_rules_after_short_calls() -> None:
    x, y = tensors()
    for _ in range(2):
        x.add_(y)
    leaf = y.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.add_(y)
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        leaf.detach().requires_grad_().view(9).add_(fd.ones(9))
    result = leaf * 1.0
    result.add_(y)
    assert result.grad_fn is not None and result.grad_fn.name() == "AddBackward0"
    plain = fd.zeros(3, 3)
    plain.add_(leaf)
    assert plain.requires_grad
    base = leaf * 1.0
    base.view(9).add_(fd.ones(9))
    base.sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), np.ones((3, 3)))


def test_a_view_of_a_recorded_base_is_not_changed_behind_its_back() -> None:
    leaf = tensors()[1].requires_grad_()
    base = leaf * 1.0
    part = base[0].detach()
    for _ in range(2):
        part.add_(0.0)
    with fd.no_grad():
        seen = base[0]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no_grad"):
            seen.add_(1.0)


def test_a_saved_tensor_that_was_changed_the_short_way_is_noticed() -> None:
    leaf, y = tensors()[1].requires_grad_(), tensors()[1]
    for _ in range(2):
        y.add_(1.0)
    out = (leaf * y).sum()
    y.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_memory_that_may_not_be_written_is_refused_each_time() -> None:
    values = np.ones((3, 3), np.float32)
    x = fd.from_numpy(values)
    for _ in range(2):
        x.add_(1.0)
    values.flags.writeable = False
    locked, repeated = fd.from_numpy(values), fd.ones(1, 3).expand(3, 3)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="read-only"):
            locked.add_(1.0)
        with pytest.raises(RuntimeError, match="single memory location"):
            repeated.add_(1.0)


def test_what_cannot_be_held_is_refused_each_time() -> None:
    whole, x = fd.arange(3), fd.zeros(3)
    for _ in range(2):
        assert whole.add_(1).dtype is fd.int64
        with pytest.raises(RuntimeError, match="can't be cast"):
            whole.add_(0.5)
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            x.add_(fd.zeros(2, 3))
        with pytest.raises(TypeError):
            x.add_()
        with pytest.raises(TypeError):
            x.add_("one")


def test_an_open_level_carries_tangents() -> None:
    x, y = tensors(fd.float64)
    for _ in range(2):
        y.clone().mul_(y)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, fd.ones_like(x))
        changed = dual * 1.0
        changed.mul_(y)
        tangent = forward_ad.unpack_dual(changed).tangent
    np.testing.assert_array_equal(tangent.numpy(), y.numpy())


def test_large_tensors_and_tensors_without_axes_or_elements_change() -> None:
    large, number, empty = fd.ones(100_000), fd.tensor(2.0), fd.zeros(0, 3)
    for _ in range(3):
        large.mul_(2.0), large.clamp_(0, 4), number.mul_(2.0), empty.add_(1.0)
    assert large.unique().tolist() == [4.0] and number.item() == 16.0 and empty.numel() == 0


def test_copies_and_assignments_write_at_once_and_are_seen_by_views() -> None:
    x, y = tensors()
    row, before = x[1], x._version
    x[1] = y[0]
    assert row._version == x._version == before + 1 and row.tolist() == y[0].tolist()
    x[0:2] = x[1:3].clone()
    x.copy_(y), row.zero_()
    assert x.tolist() == [y[0].tolist(), [0.0] * 3, y[2].tolist()]
    x[1] = y.to(fd.float64)[1]
    assert x.dtype is fd.float32 and x.tolist() == y.tolist()


def test_assignments_keep_their_rules() -> None:
    x, leaf = fd.zeros(3, 3), tensors()[1].requires_grad_()
    x[2] = leaf[0]
    assert x.requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] = fd.zeros(3)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.zero_()
    plain = fd.zeros(3, 3)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        plain[3] = fd.ones(3)
    with pytest.raises(ValueError, match="step must be greater than zero"):
        plain[::-1] = fd.ones(3, 3)
    with pytest.raises(RuntimeError):
        plain[0] = fd.ones(2)
    plain[0] = fd.ones(1, 3)
    plain[1] = 2.0
    assert plain.sum().item() == 9.0
    with pytest.raises(RuntimeError, match="single memory location"):
        fd.zeros(1, 3).expand(3, 3)[0:2] = fd.ones(2, 3)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("add_", ["input", "other", "alpha"]),
        ("__iadd__", ["input", "other", "alpha"]),
        ("exp_", ["input"]),
        ("clamp_", ["input", "min", "max"]),
        ("cumsum_", ["input", "dim", "dtype"]),
        ("div_", ["input", "other", "rounding_mode"]),
        ("transpose_", ["input", "dim0", "dim1"]),
    ],
)
def test_twins_show_their_parameters_called_or_not(name: str, parameters: list[str]) -> None:
    method = getattr(fd.Tensor, name)
    x = fd.ones(2, 2)
    arguments = {"add_": (1,), "__iadd__": (1,), "clamp_": (0,), "cumsum_": (0,), "div_": (2,)}
    for _ in range(2):
        assert list(inspect.signature(method).parameters) == parameters
        assert list(inspect.signature(getattr(x, name)).parameters) == parameters[1:]
        method(x, *arguments.get(name, (0, 1) if name == "transpose_" else ()))


@pytest.mark.parametrize("name", [name for name in CALLS if name != "parts of one"])
def test_a_later_call_on_a_device_takes_the_short_path(name: str, slow: list[str]) -> None:
    call = CALLS[name]
    values, y = tensors()
    call(values, y)
    for _ in range(3):
        slow.clear()
        again = tensors()[0].to("sim")
        before = again._version
        call(again, y.to("sim"))
    assert slow == [] and again._version == before + 1
    np.testing.assert_array_equal(again.cpu().numpy(), values.numpy())


def test_parts_of_one_on_a_device_are_looked_at_each_time(slow: list[str]) -> None:
    for _ in range(3):
        x = tensors()[0].to("sim")
        x[1:].add_(x[:1])
        x[1:].add_(x[:-1].clone())
    assert slow == ["add", "add", "add", "add"]


def test_nothing_is_written_at_once_into_a_leaf_of_a_device(slow: list[str]) -> None:
    x = fd.ones(3, device="sim", requires_grad=True)
    for _ in range(2):
        with fd.no_grad():
            x.mul_(2.0)
    # The first call made the Route on the general path, unless an earlier test had made the Route.
    before = slow.copy()
    assert before in ([], ["mul"])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.mul_(2.0)
    assert x.tolist() == [4.0] * 3 and slow == [*before, "mul"]


def test_a_tensor_of_another_device_is_refused_each_time() -> None:
    for _ in range(3):
        with pytest.raises(RuntimeError, match="input on cpu, other on sim:0"):
            fd.tensor(1.0).add_(fd.tensor(2.0, device="sim"))


def test_an_operand_that_is_repeated_out_of_place_grows_nothing_in_place() -> None:
    column, whole = fd.zeros(3, 1), fd.ones(3, 3)
    for _ in range(2):
        assert (column + whole).shape == (3, 3)
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            column.add_(whole)
