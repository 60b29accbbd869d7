"""Modules of PyTorch's own database in both libraries: state, repr, outputs and derivatives.

A few inputs of each module are tested in float64, in training and evaluation mode; `--slow` tests
more inputs, and float32 and complex128 too.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist
from tests.interop.databases import Translation, tensors, word
from tests.interop.derivative_checks import unlike

pytestmark = pytest.mark.interop("torch", "expecttest")

PARTS, SOME, MORE = 12, 2, 8
# By module: how the text of the difference begins, and the reason for the difference.
EXPLAINED = {
    "nn.LinearCrossEntropyLoss": (
        "NotImplementedError: linear_cross_entropy: options ask for logits in pieces",
        "options for logits in pieces are refused",
    ),
}
# These modules draw random numbers that differ from PyTorch's under the same seed.
DRAWING = {"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d", "nn.RReLU"}


class Sides:
    """A module with one of its inputs, in PyTorch and in fastdist."""

    def __init__(self, torch: Any, info: Any, input: Any, dtype: Any, training: bool) -> None:
        self.torch = torch
        made, given = input.constructor_input, input.forward_input
        self.theirs = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
        translation = Translation(torch)
        ours = word(torch, info.module_cls)
        args, kwargs = [_modules(torch, one, translation) for one in (made.args, made.kwargs)]
        kind = getattr(fastdist, str(dtype).removeprefix("torch."))
        self.ours = ours(*args, **kwargs).to(kind).train(training)
        self.given = (given.args, given.kwargs) if given is not None else None
        if self.given is not None:
            self.our_given = translation.value(self.given)
            self.xs = [x for x in tensors(self.given) if x.requires_grad]
            self.our_xs = [translation.tensors[id(x)] for x in self.xs]

    def states_differ(self) -> str | None:
        """Return how names, shapes or dtypes of the states differ. If none differ, load the
        values of PyTorch's module into fastdist's module.
        """
        translation = Translation(self.torch)
        state = {name: translation.value(x) for name, x in self.theirs.state_dict().items()}
        mine = self.ours.state_dict()
        if [*state] != [*mine]:
            return f"state: {[*mine]} for {[*state]}"
        for name, x in state.items():
            if hasattr(x, "shape") and (x.shape, x.dtype) != (mine[name].shape, mine[name].dtype):
                return f"state of {name}: {mine[name].shape} for {x.shape}"
        self.ours.load_state_dict(state)
        return None

    def outputs(self) -> tuple[list[Any], list[Any]]:
        (args, kwargs), (our_args, our_kwargs) = self.given, self.our_given  # type: ignore[misc]
        return tensors(self.theirs(*args, **kwargs)), tensors(self.ours(*our_args, **our_kwargs))

    def derivatives_differ(self, ys: list[Any], our_ys: list[Any]) -> str | None:
        """Return how gradients by inputs and parameters differ, or how second gradients differ."""
        xs = [*self.xs, *self.theirs.parameters()]
        our_xs = [*self.our_xs, *self.ours.parameters()]
        pairs = [pair for pair in zip(ys, our_ys) if pair[0].requires_grad]
        if not pairs or not xs:
            return None
        numbers = np.random.default_rng(3)
        draws = [_drawn(numbers, y) for y, _ in pairs]
        first = self.torch.autograd.grad(
            *_columns(self.torch, pairs, draws, 0, xs), allow_unused=True, create_graph=True
        )
        our_first = fastdist.autograd.grad(
            *_columns(fastdist, pairs, draws, 1, our_xs), allow_unused=True, create_graph=True
        )
        for i, (g, our_g) in enumerate(zip(first, our_first, strict=True)):
            if (told := unlike(f"gradient {i}", our_g, g)) is not None:
                return f"gradient {i}: {told}"
        return self._second_differ(first, our_first, xs, our_xs)

    def _second_differ(self, first: Any, our_first: Any, xs: Any, our_xs: Any) -> str | None:
        both = [(g, o) for g, o in zip(first, our_first) if g is not None and o.requires_grad]
        if not any(g.requires_grad for g, _ in both):
            return None
        try:
            second = self.torch.autograd.grad(
                sum(g.abs().square().sum() for g, _ in both), xs, allow_unused=True
            )
        except RuntimeError:
            return None  # PyTorch has no second derivative for this module
        our_second = fastdist.autograd.grad(
            sum(o.abs().square().sum() for _, o in both), our_xs, allow_unused=True
        )
        for i, (g, our_g) in enumerate(zip(second, our_second, strict=True)):
            told = unlike(f"second gradient {i}, maybe of nothing", our_g, g)
            if told is not None:
                return f"second gradient {i}: {told}"
        return None


def _modules(torch: Any, given: Any, translation: Translation) -> Any:
    """Return fastdist's counterparts of a constructor's arguments; layers are created again."""
    if isinstance(given, torch.nn.TransformerEncoderLayer | torch.nn.TransformerDecoderLayer):
        return word(torch, type(given))(
            given.self_attn.embed_dim,
            given.self_attn.num_heads,
            given.linear1.out_features,
            given.dropout.p,
            given.activation.__name__,
            given.norm1.eps,
            given.self_attn.batch_first,
            given.norm_first,
            given.linear1.bias is not None,
        )
    if isinstance(given, tuple):
        return tuple(_modules(torch, one, translation) for one in given)
    if isinstance(given, dict):
        return {name: _modules(torch, one, translation) for name, one in given.items()}
    return translation.value(given)


def _drawn(numbers: Any, y: Any) -> Any:
    drawn = numbers.standard_normal(tuple(y.shape))
    return np.asarray(
        drawn + 1j * numbers.standard_normal(tuple(y.shape)) if y.is_complex() else drawn
    )


def _columns(library: Any, pairs: Any, draws: Any, which: int, xs: Any) -> Any:
    ys = [pair[which] for pair in pairs]
    return ys, xs, [library.from_numpy(d).to(y.dtype) for d, y in zip(draws, ys)]


def differs(torch: Any, info: Any, input: Any, dtype: Any, training: bool) -> str | None:
    """Return the difference between the two modules, or None."""
    sides = Sides(torch, info, input, dtype, training)
    if repr(sides.theirs) != repr(sides.ours):
        return f"text: {sides.ours!r} for {sides.theirs!r}"
    is_lazy = getattr(sides.theirs, "has_uninitialized_params", bool)()
    if is_lazy:
        sides.outputs()
    told = sides.states_differ()
    if told is not None or sides.given is None:
        return told
    ys, our_ys = sides.outputs()
    if len(ys) != len(our_ys):
        return f"{len(our_ys)} outputs for {len(ys)}"
    for i, (y, our_y) in enumerate(zip(ys, our_ys)):
        if y.requires_grad != our_y.requires_grad:
            return f"output {i} requires grad: {our_y.requires_grad}"
        told = unlike(f"output {i}", our_y, y)
        if told is not None:
            return f"output {i}: {told}"
    return sides.derivatives_differ(ys, our_ys)


def differences(torch: Any, info: Any, dtype: Any, most: int) -> Iterator[str]:
    for training in (True, False):
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)  # noqa: NPY002  what their inputs are drawn by
        more = {"device": "cpu", "dtype": dtype, "requires_grad": True, "training": training}
        inputs = list(info.module_inputs_func(info, **more))
        for input in inputs[:: max(1, -(-len(inputs) // most))]:
            try:
                told = differs(torch, info, input, dtype, training)
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
            if told is not None and not told.startswith(EXPLAINED.get(info.name, ("\n",))[0]):
                yield f"{info.name} {dtype}, training {training}, {input.constructor_input}: {told}"


def found_in(part: int, dtype: str, most: int) -> list[str]:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db

        kind = getattr(torch, dtype)
        return [
            told
            for info in module_db[part::PARTS]
            if info.name not in DRAWING and (kind in info.dtypes or dtype == "float64")
            for told in differences(torch, info, kind, most)
        ]


@pytest.mark.parametrize("part", range(PARTS))
def test_modules_do_what_pytorch_s_do(part: int) -> None:
    assert found_in(part, "float64", SOME) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("part", range(PARTS))
def test_modules_do_so_with_more_inputs(part: int, dtype: str) -> None:
    assert found_in(part, dtype, MORE) == []
