"""Error messages stay short for user values that are large, nested or broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count, repeat
from typing import Any

import numpy as np
import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist.core.short_repr import short_repr


def sharing() -> list[Any]:
    """Return 45 nested lists; each holds the next one twice: a full repr has 2**45 numbers."""
    found: list[Any] = [1]
    for _ in range(45):
        found = [found, found]
    return found


def deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(20_000):
        found = [found]
    return found


def holding_itself() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


def shared_rows() -> list[Any]:
    return [[[0] * 2000] * 2000] * 2000


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("this has no repr")


@dataclass
class Holder:
    value: Any


VALUES: dict[str, Callable[[], Any]] = {
    "sharing": sharing,
    "in a tuple": lambda: (sharing(),),
    "in a dict": lambda: {"a": sharing()},
    "in a slice": lambda: slice(sharing()),
    "in a dataclass": lambda: Holder(sharing()),
    "in a partial": lambda: partial(print, sharing()),
    "repeated": lambda: repeat(sharing()),
    "in an array": lambda: np.array([Holder(sharing()), None], dtype=object),
    "beside a number": lambda: [1, sharing()],
    "rows": shared_rows,
    "deep": deep,
    "holding itself": holding_itself,
    "long text": lambda: "x" * 1_000_000,
    "long bytes": lambda: b"x" * 1_000_000,
    "long list": lambda: ["a"] * 200_000,
    "huge integer": lambda: 10**10_000,
    "huge negative integer": lambda: [-(10**10_000)],
    "endless": count,
    "endless call": lambda: iter(int, 1),
    "endless generator": lambda: (i for i in count()),
    "long range": lambda: range(10**13),
    "broken": Broken,
}


@pytest.mark.parametrize("kind", VALUES)
def test_short_repr_is_short_whatever_the_value(kind: str) -> None:
    assert len(short_repr(VALUES[kind]())) <= 1000


@pytest.mark.parametrize(
    "value",
    [
        *[0, -5, 2**63, True, None, ..., 1.5, 2j, "a'b", b"a", (), (1,), [1, [2]], {1: "a"}, {1}],
        *[slice(1), range(3), fd.float32, int, frozenset({1}), Holder([1])],
        *[fd.Size([2, 3]), np.float32(1), np.arange(3), np.zeros(3000), print, Ellipsis],
    ],
)
def test_short_repr_is_the_repr_of_small_values(value: Any) -> None:
    assert short_repr(value) == repr(value)


def test_short_repr_of_a_tensor_is_its_own() -> None:
    assert short_repr([fd.ones(2)]) == repr([fd.ones(2)])


def test_short_repr_says_how_much_it_left_out() -> None:
    assert short_repr([0] * 1000) == "[0, 0, 0, 0, ... (996 more)]"


CALLS: dict[str, Callable[[Any], Any]] = {
    "Size": fd.Size,
    "tensor": fd.tensor,
    "as_tensor": fd.as_tensor,
    "zeros": fd.zeros,
    "zeros of two sizes": lambda v: fd.zeros(2, v),
    "full": lambda v: fd.full((2,), v),
    "arange": fd.arange,
    "reshape": lambda v: fd.ones(2, 3).reshape(v),
    "permute": lambda v: fd.ones(2, 3).permute(v),
    "expand": lambda v: fd.ones(2, 3).expand(v),
    "repeat": lambda v: fd.ones(2, 3).repeat(v),
    "as_strided": lambda v: fd.ones(2, 3).as_strided((1,), v),
    "unflatten": lambda v: fd.ones(2, 3).unflatten(0, v),
    "sum": lambda v: fd.ones(2, 3).sum(v),
    "cumsum": lambda v: fd.ones(2, 3).cumsum(v),
    "size": lambda v: fd.ones(2, 3).size(v),
    "movedim": lambda v: fd.movedim(fd.ones(2, 3), v, 0),
    "roll": lambda v: fd.roll(fd.ones(2, 3), v),
    "flip": lambda v: fd.flip(fd.ones(2, 3), v),
    "index": lambda v: fd.ones(2, 3)[v],
    "index of two": lambda v: fd.ones(2, 3)[0, v],
    "index_select": lambda v: fd.ones(2, 3).index_select(0, v),
    "stack": fd.stack,
    "cat": fd.cat,
    "vstack": fd.vstack,
    "einsum": lambda v: fd.einsum("ij->i", v),
    "multi_dot": fd.linalg.multi_dot,
    "broadcast_shapes": fd.broadcast_shapes,
    "tensordot": lambda v: fd.tensordot(fd.ones(2, 3), fd.ones(2, 3), v),
    "split": lambda v: fd.ones(2, 3).split(v),
    "hsplit": lambda v: fd.hsplit(fd.ones(2, 3), v),
    "add": lambda v: fd.add(fd.ones(2, 3), v),
    "where": lambda v: fd.where(v, 1, 2),
    "pad": lambda v: F.pad(fd.ones(2, 3), v),
    "interpolate": lambda v: F.interpolate(fd.ones(1, 1, 2, 2), v),
    "interpolate by factors": lambda v: F.interpolate(fd.ones(1, 1, 2, 2), scale_factor=v),
    "max_pool2d": lambda v: F.max_pool2d(fd.ones(1, 1, 2, 2), v),
    "conv2d": lambda v: F.conv2d(fd.ones(1, 1, 2, 2), fd.ones(1, 1, 1, 1), stride=v),
    "Linear": lambda v: fd.nn.Linear(v, 2),
    "device": fd.device,
    "to": lambda v: fd.ones(2, 3).to(v),
    "resize_": lambda v: fd.ones(2, 3).resize_(v),
    "layer_norm": lambda v: F.layer_norm(fd.ones(2, 3), v),
    "LayerNorm": fd.nn.LayerNorm,
    "fftn": lambda v: fd.fft.fftn(fd.ones(2, 3), s=v),
    "sparse sizes": lambda v: fd.sparse_coo_tensor([[0]], [1.0], v),
    "sample": lambda v: fd.distributions.Normal(0.0, 1.0).sample(v),
    "random_split": lambda v: fd.utils.data.random_split([1, 2], v),
    "storage": fd.UntypedStorage,
    "cond": lambda v: fd.linalg.cond(fd.eye(2), v),
    "batch_size": lambda v: fd.utils.data.DataLoader([1, 2], batch_size=v),
    "padding mode": lambda v: F.pad(fd.ones(2, 3), (1, 1), mode=v),
    "reduction": lambda v: F.mse_loss(fd.ones(2), fd.ones(2), reduction=v),
    "in_dims": lambda v: fd.vmap(fd.sin, in_dims=v)(fd.ones(2)),
    "argnums": lambda v: fd.func.jacrev(fd.sin, argnums=v)(fd.ones(2)),
    "params": lambda v: fd.optim.SGD(v, lr=0.1),
    "SGD": lambda v: fd.optim.SGD([fd.ones(1)], lr=v),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", CALLS)
def test_errors_about_arguments_are_short_and_in_words(name: str) -> None:
    unclear = []
    for kind, make in VALUES.items():
        try:
            CALLS[name](make())
        except Exception as error:
            text = str(error)
            is_unclear = "has no attribute" in text or "Exceeds the limit" in text or not text
            if len(text) > 3000 or is_unclear or isinstance(error, RecursionError):
                unclear.append(f"{kind}: {type(error).__name__} {text[:200]}")
    assert unclear == []
