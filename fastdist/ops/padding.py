"""Tensors made longer at their ends: with a number, or with what stands there already."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ShapeError
from ..dispatch.composite import composite
from ..dispatch.op import OPS
from ..tensor.layout import Shape
from ..tensor.tensor import Tensor, from_array
from .creation import full
from .joining import narrow

_MODES = ("constant", "reflect", "replicate", "circular")


@composite(functional=True, function=False, method=False)
def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Return input with pad[0] elements before and pad[1] behind its last axis, pad[2] and pad[3]
    about the one before, and so on; negative numbers take elements away.

    mode "constant" puts value (0) there, "reflect" the elements mirrored at the border element,
    "replicate" the border element, "circular" those of the other end
    Raises  RuntimeError for numbers that do not fit, NotImplementedError for a mode or a number of
            axes that PyTorch does not have
    """
    shape = input.layout.shape
    ends = _ends(pad, shape)
    if mode == "constant":
        return _constant(input, ends, 0.0 if value is None else value)
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}; known: {', '.join(_MODES)}")
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if not 0 <= len(shape) - len(ends) - 1 <= 1:
        raise NotImplementedError(
            f"Padding size {2 * len(ends)} is not supported for {len(shape)}D input tensor: mode "
            f"{mode!r} pads the last axis of 2 or 3, the last two of 3 or 4, the last three of 4 "
            "or 5"
        )
    for axis, (before, behind) in ends.items():
        places = _places(mode, shape, axis, before, behind)
        input = input.index_select(axis, from_array(places).to(input.layout.device))
    return input


def _ends(pad: Any, shape: Shape) -> dict[int, tuple[int, int]]:
    """Return axis -> (before, behind), from the last axis on.

    Raises  RuntimeError
    """
    numbers = [n.__index__() for n in pad]
    if len(numbers) % 2:
        raise ShapeError(f"Padding length must be divisible by 2, got {len(numbers)}: {pad!r}")
    if len(numbers) > 2 * len(shape):
        raise ShapeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(numbers)} and input of dimension {len(shape)}"
        )
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    ends = {len(shape) - 1 - i: pair for i, pair in enumerate(pairs)}
    for axis, (before, behind) in ends.items():
        if shape[axis] + min(before, 0) + min(behind, 0) < 0:
            raise ShapeError(
                f"The input size {shape[axis]}, plus negative padding {before} and {behind}, "
                f"resulted in a negative output size, which is invalid: axis {axis} of {shape}"
            )
    return ends


def _constant(input: Tensor, ends: dict[int, tuple[int, int]], value: float) -> Tensor:
    lengths = list(input.layout.shape)
    index: list[Any] = [slice(None)] * len(lengths)
    for axis, (before, behind) in ends.items():
        start = max(-before, 0)
        kept = lengths[axis] - start - max(-behind, 0)
        if start or kept < lengths[axis]:
            input = narrow(input, axis, start, kept)
        lengths[axis] = kept + max(before, 0) + max(behind, 0)
        index[axis] = slice(max(before, 0), max(before, 0) + kept)
    shape, where = tuple(lengths), (*index, ...)
    if not value:
        return OPS["place"].public(input, shape, where)  # type: ignore[no-any-return]
    layout = input.layout
    padded: Any = full(shape, value, dtype=layout.dtype, device=layout.device)
    padded[where] = input
    return padded  # type: ignore[no-any-return]


def _places(mode: str, shape: Shape, axis: int, before: int, behind: int) -> Any:
    """Return from which place along axis each element of the longer one comes.

    Raises  RuntimeError where there is nothing to mirror, repeat or go round
    """
    n = shape[axis]
    places = np.arange(-before, n + behind)
    most = {"reflect": n - 1, "circular": n, "replicate": None if n else 0}[mode]
    if most is not None and max(before, behind) > most:
        what = {
            "reflect": "Padding size should be less than the corresponding input dimension",
            "circular": "Padding value causes wrapping around more than once",
            "replicate": "Expected input to have elements where it is padded",
        }[mode]
        raise ShapeError(
            f"{what}, but got: padding ({before}, {behind}) at dimension {axis} of input "
            f"{list(shape)}"
        )
    if mode == "replicate":
        return places.clip(0, n - 1)
    if mode == "circular":
        return places % max(n, 1)
    mirrored = np.abs(places)
    return np.where(mirrored >= n, 2 * (n - 1) - mirrored, mirrored)
