"""Tensors of each dtype are sent between workers in each memory layout and over each channel."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as torch
import fastdist.autograd.forward_ad as fwAD
import fastdist.distributed.autograd as dist_autograd
from fastdist.core import dtypes
from fastdist.distributed import rpc
from fastdist.distributed.arena.lender import LEAST_BYTES
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.members import members
from tests.distributed.workers import Group

# The size of a large tensor, about equal for all dtypes. Half of it is enough for an arena.
LARGE_BYTES = 2 * LEAST_BYTES
NAMES = [dtype.name for dtype in dtypes.ALL]
GRADED = [one.name for one in dtypes.ALL if one.may_have_gradient and not one.is_float8]


@pytest.fixture(scope="module", params=["arena", "basic"])
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    with members(__file__, 2, rpc_timeout=60, init_timeout=60, _channels=[request.param]) as group:
        if request.param == "basic":
            group.run_all(keep_large_forms_alone)
        yield group


def made(name: str, *shape: int) -> Any:
    """Return a tensor of zeros and ones, which almost every dtype represents exactly."""
    count = int(np.prod(shape))
    return torch.from_numpy((np.arange(count) % 7 % 2).reshape(shape)).to(getattr(torch, name))


def large(name: str) -> tuple[int, int]:
    # With this row length the second row begins with a 1. float8_e8m0fnu does not represent 0.
    return 500, LARGE_BYTES // 500 // getattr(torch, name).itemsize // 7 * 7 + 10


def same(value: Any) -> Any:
    return value


def require_equal(came: Any, sent: Any) -> None:
    assert came.dtype is sent.dtype and came.shape == sent.shape
    np.testing.assert_array_equal(bits(came), bits(sent))


def bits(tensor: Any) -> Any:
    # Compare the bytes, because NumPy lacks some dtypes, and because NaN is unequal to itself.
    array = tensor.detach()._array
    return np.frombuffer(array.tobytes(), np.uint8).reshape(*array.shape, array.itemsize)


FORMS: dict[str, Callable[[str], Any]] = {
    "0-d": made,
    "empty": lambda name: made(name, 0, 3),
    "tiny": lambda name: made(name, 2, 3),
    "large": lambda name: made(name, *large(name)),
    "turned": lambda name: made(name, 2, 3).t(),
    "turned and large": lambda name: made(name, *large(name)).t(),
    "every other": lambda name: made(name, 40, 6)[::2, 1::2],
    "expanded": lambda name: made(name, 1).expand(5, 4),
    "expanded and large": lambda name: made(name).expand(*large(name)),
    "from the middle": lambda name: made(name, *large(name))[3:, 4:],
}


def keep_large_forms_alone() -> None:
    """Keep only the large forms: small tensors are sent inside messages even with an arena."""
    for form in [form for form in FORMS if "large" not in form and "middle" not in form]:
        del FORMS[form]
    assert len(FORMS) == 4


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", NAMES)
@on_worker(0)
def test_a_tensor_comes_back_as_it_was_in_every_form(name: str) -> None:
    for make in FORMS.values():
        sent = make(name)
        require_equal(rpc.rpc_sync("w1", same, (sent,)), sent)
        require_equal(rpc.remote("w1", same, (sent,)).to_here(), sent)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", NAMES)
@on_worker(0)
def test_tensors_come_back_inside_of_what_holds_them(name: str) -> None:
    sent = [make(name) for make in FORMS.values()]
    came = rpc.rpc_sync("w1", same, ({"all": sent, "two": (sent[2], sent[3])},))
    for got, given in zip([*came["all"], *came["two"]], [*sent, sent[2], sent[3]], strict=True):
        require_equal(got, given)
    assert came["two"][0] is came["all"][2]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", NAMES)
@on_worker(0)
def test_views_of_one_memory_share_it_on_the_other_side(name: str) -> None:
    base = made(name, *large(name))
    sent = [base, base[1:3], base.t()]
    for got, given in zip(rpc.rpc_sync("w1", same, (sent,)), sent, strict=True):
        require_equal(got, given)
    came = rpc.rpc_sync("w1", same, (sent,))
    came[0][1, 0] = not base[1, 0].item()
    assert came[1][0, 0].item() == came[2][0, 1].item() != base[1, 0].item()


class Holder(torch.nn.Module):
    """A module with one buffer, which may have any dtype."""

    def __init__(self, tensor: Any) -> None:
        super().__init__()
        self.register_buffer("held", tensor)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", NAMES)
@on_worker(0)
def test_modules_cross_with_what_they_hold(name: str) -> None:
    for make in FORMS.values():
        sent = make(name)
        require_equal(rpc.rpc_sync("w1", same, (Holder(sent),)).held, sent)
    if name in GRADED:
        linear = torch.nn.Linear(300, 400).to(getattr(torch, name))
        came = rpc.rpc_sync("w1", same, (linear,))
        require_equal(came.weight, linear.weight)
        assert isinstance(came.weight, torch.nn.Parameter) and came.weight.requires_grad


def squared(x: Any) -> Any:
    return x * x


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", GRADED)
@on_worker(0)
def test_gradients_come_back_to_a_leaf_of_every_form(name: str) -> None:
    for make in FORMS.values():
        x = make(name).clone().requires_grad_()
        with dist_autograd.context() as context_id:
            # The gradient of `sum` is an expanded tensor: one element with stride 0.
            loss = rpc.rpc_sync("w1", squared, (x,)).sum().abs()
            dist_autograd.backward(context_id, [loss])
            came = dist_autograd.get_gradients(context_id)[x]
        loss = squared(x).sum().abs()
        loss.backward()
        require_equal(came, x.grad)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", GRADED)
@on_worker(0)
def test_tangents_cross_with_their_values(name: str) -> None:
    for make in FORMS.values():
        x = make(name)
        with fwAD.dual_level():
            dual = fwAD.make_dual(x, x.clone())
            there = fwAD.unpack_dual(rpc.rpc_sync("w1", squared, (dual,)))
            here = fwAD.unpack_dual(squared(dual))
            require_equal(there.primal, here.primal)
            require_equal(there.tangent, here.tangent)


def saved(x: Any) -> bytes:
    file = io.BytesIO()
    torch.save(x, file)
    return file.getvalue()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", NAMES)
@on_worker(0)
def test_what_a_worker_saves_another_loads(name: str) -> None:
    for make in FORMS.values():
        sent = make(name)
        require_equal(torch.load(io.BytesIO(rpc.rpc_sync("w1", saved, (sent,)))), sent)
