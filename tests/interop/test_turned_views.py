"""In-place transposes of tensors whose views are in use, against PyTorch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import fastdist
from tests.properties import in_one_test

pytestmark = [
    pytest.mark.interop("torch"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),  # from torch's jit
]

TURNS: dict[str, Callable[[Any], Any]] = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(-1, 0),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "as_strided_": lambda x: x.as_strided_((4, 3), (1, 4)),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[1],
    "columns": lambda x: x[:, 1:3],
    "flat": lambda x: x.view(-1),
    "turned": lambda x: x.t(),
    "diagonal": lambda x: x.diagonal(),
    "of_a_view": lambda x: x[:2].t()[1:],
}


def library_of(name: str) -> Any:
    if name == "fastdist":
        return fastdist
    import torch

    return torch


def both(program: Callable[[Any], Any]) -> None:
    """Run a program on both libraries, and compare the results."""
    assert_same(program(library_of("fastdist")), program(library_of("torch")))


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for part, its in zip(one, other, strict=True):
            assert_same(part, its)
    else:
        assert one == pytest.approx(other, rel=1e-5)


def moves(tensor: Any) -> list[int]:
    """Return the strides of axes with more than one element."""
    return [step for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n > 1]


def weights(lib: Any, tensor: Any, start: float = 1.0) -> Any:
    """Return a tensor of distinct weights with the shape of another tensor."""
    return (lib.arange(float(tensor.numel())) + start).reshape(tensor.shape) / 8


@in_one_test("turn", list(TURNS))
@in_one_test("view", list(VIEWS))
def test_gradients_pass_through_old_views_and_the_base(turn: str, view: str) -> None:
    def program(lib: Any) -> list[Any]:
        leaf = (lib.arange(12.0) / 8).reshape(3, 4).requires_grad_()
        base = leaf * 2
        old = VIEWS[view](base)
        seen: list[Any] = []
        TURNS[turn](base)
        base.register_hook(lambda g: seen.append((tuple(g.shape), g.tolist())))
        loss = (old * old * weights(lib, old)).sum() + (base * base * weights(lib, base, 3)).sum()
        (first,) = lib.autograd.grad(loss, leaf, create_graph=True)
        (second,) = lib.autograd.grad((first * first * weights(lib, first)).sum(), leaf)
        shapes = [tuple(old.shape), moves(old), tuple(base.shape), moves(base)]
        return [first.tolist(), second.tolist(), seen, shapes, old._version, base._version]

    both(program)


@in_one_test("turn", list(TURNS))
@in_one_test("view", list(VIEWS))
def test_writes_through_old_views_reach_the_base(turn: str, view: str) -> None:
    def program(lib: Any) -> list[Any]:
        leaf = (lib.arange(12.0) / 8).reshape(3, 4).requires_grad_()
        base = leaf * 2
        old, other = VIEWS[view](base), base[2]
        factor = (weights(lib, old, 2)).detach().requires_grad_()
        TURNS[turn](base)
        old.mul_(factor)
        base.mul_(base.detach().clone())
        old.add_(1)
        result = [base.tolist(), old.tolist(), other.tolist(), old._version]
        loss = (base * weights(lib, base)).sum() + (other * weights(lib, other)).sum()
        first = lib.autograd.grad(loss, (leaf, factor), create_graph=True)
        total = sum(((g * g) * weights(lib, g)).sum() for g in first)
        second = lib.autograd.grad(total, (leaf, factor))
        return result + [g.tolist() for g in (*first, *second)]

    both(program)


@in_one_test("turn", ["t_", "transpose_", "swapaxes_", "unsqueeze_"])
@in_one_test("view", list(VIEWS))
@in_one_test("of_dual", [True, False])
def test_tangents_pass_through_old_views(turn: str, view: str, of_dual: bool) -> None:
    def program(lib: Any) -> list[Any]:
        with lib.autograd.forward_ad.dual_level():
            primal = (lib.arange(12.0) / 8).reshape(3, 4)
            base = lib.autograd.forward_ad.make_dual(primal, weights(lib, primal))
            if not of_dual:
                base = base * 2
            old = VIEWS[view](base)
            TURNS[turn](base)
            parts = [(old * old), (base * base), old]
            pairs = [lib.autograd.forward_ad.unpack_dual(part) for part in parts]
            found = [[part.tolist() for part in pair] for pair in pairs]
            old.mul_(weights(lib, old, 5))
            pairs = [lib.autograd.forward_ad.unpack_dual(part) for part in (old, base, base * 3)]
            return found + [[part.tolist() for part in pair] for pair in pairs]

    both(program)


def test_squeezed_under_its_views() -> None:
    def program(lib: Any) -> list[Any]:
        leaf = (lib.arange(6.0) / 8).reshape(1, 3, 1, 2).requires_grad_()
        base = leaf * 2
        olds = [base[0], base[:, 1], base.view(6), base.permute(3, 1, 0, 2)]
        base.squeeze_()
        base.unsqueeze_(2)
        for old in olds:
            old.mul_(weights(lib, old).detach())
        loss = sum((one * one * weights(lib, one)).sum() for one in (*olds, base))
        (first,) = lib.autograd.grad(loss, leaf)
        return [first.tolist(), base.tolist()]

    both(program)


@in_one_test("seed", range(12))
def test_random_turns_views_and_writes(seed: int) -> None:
    """Views of views, with transposed bases and views, in random order."""

    def program(lib: Any) -> list[Any]:
        draw = random.Random(seed)
        leaf = (lib.arange(24.0) / 8).reshape(2, 3, 4).requires_grad_()
        base = leaf * 2
        tensors = [base]
        for _ in range(10):
            one = draw.choice(tensors)
            axes = [draw.randrange(one.dim()) for _ in range(2)] if one.dim() else [0, 0]
            action = draw.choice(["view", "turn", "write", "turn base"])
            if action == "view" and one.dim():
                tensors.append(one.narrow(axes[0], 0, 1 + draw.randrange(one.shape[axes[0]])))
            elif action == "turn" and one.dim():
                getattr(one, draw.choice(["transpose_", "swapdims_"]))(*axes)
            elif action == "turn base":
                draw.choice([lambda x: x.unsqueeze_(1), lambda x: x.squeeze_()])(base)
            else:
                one.mul_(weights(lib, one))
        loss = sum((one * one * weights(lib, one)).sum() for one in tensors)
        (first,) = lib.autograd.grad(loss, leaf, create_graph=True)
        (second,) = lib.autograd.grad((first * first).sum(), leaf)
        layouts = [(tuple(x.shape), moves(x), x._version) for x in tensors]
        return [layouts, *(x.tolist() for x in (first, second, *tensors))]

    both(program)
