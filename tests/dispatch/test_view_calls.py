"""The short path of views and indexing, and properties of the resulting views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import autograd
from fastdist.autograd import forward_ad
from fastdist.dispatch.op import OPS
from fastdist.dispatch.structured import StructuredOp
from fastdist.dispatch.view import ViewOp
from tests.dispatch.paths import general_calls, gradient_of

MASK = fd.tensor([[True, False, True], [False, False, True]])

CALLS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: x.view(3, 2),
    "view(tuple)": lambda x: x.view((6,)),
    "view(Size)": lambda x: x.view(fd.Size([3, 2])),
    "expand(Size)": lambda x: x[:1].expand(x.shape),
    "reshape": lambda x: x.reshape(3, 2),
    "reshape(-1)": lambda x: x.reshape(-1),
    "reshape(list)": lambda x: x.reshape([3, -1]),
    "transpose": lambda x: x.transpose(0, -1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "squeeze()": lambda x: x[:1].squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "expand": lambda x: x.expand(4, 2, 3),
    "expand row": lambda x: x[:1].expand(5, 3),
    "x[i]": lambda x: x[-1],
    "x[i:j]": lambda x: x[0:1],
    "x[:, i]": lambda x: x[:, 1],
    "x[i, j]": lambda x: x[1, 2],
    "x[::2]": lambda x: x[:, ::2],
    "x[None]": lambda x: x[None],
    "x[...]": lambda x: x[...],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "select": lambda x: x.select(1, 2),
    "of a view": lambda x: x.t()[1].unsqueeze(0),
    "of strides": lambda x: x.t().reshape(6),
    "x[places]": lambda x: x[fd.tensor([1, 0, 1, 1])],
    "x[mask]": lambda x: x[MASK],
}
every_call = pytest.mark.parametrize("name", CALLS)


def leaf() -> Any:
    return fd.tensor(np.arange(6.0).reshape(2, 3), dtype=fd.float64, requires_grad=True)


def counted(out: Any) -> Any:
    return fd.arange(out.numel()).reshape(out.shape).to(out.dtype) + 1


@every_call
def test_a_second_call_takes_the_short_path(name: str) -> None:
    x = leaf()
    CALLS[name](x), CALLS[name](x.detach())
    with general_calls(ViewOp, StructuredOp) as went:
        CALLS[name](x), CALLS[name](x.detach())
    assert went == []


@pytest.mark.one_in(4)
@every_call
def test_values_layouts_and_gradients_are_those_of_the_general_path(name: str) -> None:
    call, x = CALLS[name], leaf()
    call(x)
    found, gradient = call(x), gradient_of(call, x, counted)
    with autograd.set_detect_anomaly(True):
        expected, wanted = call(x), gradient_of(call, x, counted)
    assert found._layout is expected._layout
    np.testing.assert_array_equal(found.detach().numpy(), expected.detach().numpy())
    np.testing.assert_array_equal(gradient, wanted)


@pytest.mark.one_in(4)
@every_call
def test_gradients_may_be_differentiated_again(name: str) -> None:
    call, x = CALLS[name], leaf()
    call(x)
    out = call(x * 1.0)
    g = fd.arange(out.numel()).reshape(out.shape).to(out.dtype) + 1
    (recorded,) = autograd.grad(out, x, g, create_graph=True)
    np.testing.assert_array_equal(recorded.detach().numpy(), gradient_of(call, x, counted))


@pytest.mark.one_in(4)
@every_call
def test_tangents_follow(name: str) -> None:
    call, x = CALLS[name], leaf().detach()
    call(x), call(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x * 10)
        tangent = forward_ad.unpack_dual(call(dual)).tangent
    np.testing.assert_array_equal(tangent.numpy(), call(x * 10).numpy())


VIEWS = [name for name in CALLS if name not in ("of strides", "x[places]", "x[mask]")]


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory_and_version(name: str) -> None:
    call, x = CALLS[name], leaf().detach()
    call(x)
    seen = call(x)
    before = seen._version
    x.add_(100.0)
    assert seen._version == before + 1 and seen._is_view() and seen._base is not None
    np.testing.assert_array_equal(seen.numpy(), call(x).numpy())


@pytest.mark.parametrize("name", VIEWS)
def test_an_in_place_op_on_the_base_renews_the_view_s_gradient(name: str) -> None:
    call, x = CALLS[name], leaf()
    base = x * 1.0
    call(base)
    seen = call(base)
    base.mul_(3.0)
    seen.sum().backward()
    once = leaf()
    (call(once * 1.0).sum() * 3.0).backward()
    np.testing.assert_array_equal(x.grad.numpy(), once.grad.numpy())


@pytest.mark.parametrize("name", [one for one in VIEWS if "expand" not in one])
def test_an_in_place_op_on_the_view_reaches_the_base(name: str) -> None:
    call, x = CALLS[name], leaf()
    base = x * 1.0
    call(base)
    call(base).mul_(3.0)
    base.sum().backward()
    factors = np.ones((2, 3))
    part = fd.tensor(factors)
    call(part).mul_(3.0)
    np.testing.assert_array_equal(x.grad.numpy(), part.numpy())


def test_a_view_made_in_no_grad_is_not_changed_outside() -> None:
    base = leaf() * 1.0
    base.view(6)
    with fd.no_grad():
        seen = base.view(6)
    assert not seen.requires_grad
    with pytest.raises(RuntimeError, match="no_grad"):
        seen.mul_(2.0)


def test_repeated_elements_may_not_be_written() -> None:
    x = fd.zeros(1, 3)
    for _ in range(2):
        seen = x.expand(4, 3)
        assert not seen.numpy().flags.writeable
        assert x.expand(1, 3).numpy().flags.writeable


def test_wrong_arguments_say_so_each_time() -> None:
    x = fd.zeros(2, 3)
    for _ in range(2):
        x.view(6), x.reshape(6), x[0]
        with pytest.raises(RuntimeError, match=r"shape '\[4\]' is invalid for input of size 6"):
            x.reshape(4)
        with pytest.raises(RuntimeError, match="not compatible"):
            x.t().view(6)
        with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0"):
            x[2]
        with pytest.raises(IndexError, match="index 2 is out of bounds for dimension 0"):
            x[fd.tensor([0, 2])]
        with pytest.raises(IndexError):
            x[MASK.t()]


def test_places_from_the_end_and_masks_without_a_true_work() -> None:
    x = leaf()
    np.testing.assert_array_equal(
        x[fd.tensor([-1, 0])].detach().numpy(), x.detach().numpy()[[-1, 0]]
    )
    nothing = x[fd.zeros(2, 3, dtype=fd.bool)]
    assert nothing.shape == (0,)
    nothing.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((2, 3)))
    assert x[fd.zeros(0, dtype=fd.int64)].shape == (0, 3)


def test_an_index_that_was_changed_is_noticed() -> None:
    x, places = leaf(), fd.tensor([1, 0])
    for _ in range(2):
        out = x[places]
    places.add_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_repeat_and_einsum_find_their_views_again() -> None:
    x = fd.ones(2, 3)
    for call in (lambda: x.repeat(2, 1, 3), lambda: fd.einsum("ij,kj->ki", x, x)):
        first = call()
        with general_calls(ViewOp) as went:
            assert fd.equal(call(), first)
        assert went == []


def test_0d_and_empty_tensors_have_views() -> None:
    number, empty = fd.tensor(2.0), fd.zeros(0, 3)
    for _ in range(2):
        assert number.view(1).tolist() == [2.0] and number.unsqueeze(0).shape == (1,)
        assert number[None].shape == (1,) and number[...].item() == 2.0
        assert number.expand(2, 2).tolist() == [[2.0, 2.0], [2.0, 2.0]]
        assert empty.view(3, 0).shape == (3, 0) and empty.t().shape == (3, 0)
        assert empty.expand(2, 0, 3).shape == (2, 0, 3) and empty[:, 1].shape == (0,)


def test_long_chains_of_views_are_replayed_in_order() -> None:
    x = leaf()
    base = x * 1.0
    seen = base
    for _ in range(50):
        seen = seen.t().unsqueeze(0)[0]
    base.mul_(2.0)
    seen.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 3), 2.0))


def test_a_dtype_is_taken_in_the_place_of_sizes_by_whoever_calls_view_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OPS["view"], "fitted", set())
    assert fd.ones(2).view(fd.int32).dtype is fd.int32
