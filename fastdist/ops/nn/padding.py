"""Padding of tensors with a number, or with elements of the tensor itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ...core.errors import ShapeError
from ...core.overflow_checks import count_up
from ...core.sequences import all_of
from ...core.short_repr import short_repr, short_text
from ...core.torch_function import NOT_TAKEN
from ...dispatch.composite import before, composite
from ...dispatch.declaration import node_named, recorded_as
from ...dispatch.op import PLAIN
from ...tensor.constants import not_held
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor
from ..channels_last import in_format_of
from ..device_constants import on_device
from ..index.indexing import select_slices
from ..shape.copying import place
from ..shape.splitting import narrow
from ..unrecorded_moves import by_table
from .pool_arguments import are_ints

_taken = select_slices.in_steps()
_MODES = ("constant", "reflect", "replicate", "circular")


def _mirrors(*args: object, mode: object = "constant", **named: object) -> bool:
    """Return whether the mode of padding only copies elements of the input."""
    return (args[1] if len(args) > 1 else mode) in ("reflect", "replicate", "circular")


def _mirror_again(input: Tensor, pad: Any, mode: str = "constant", value: object = None) -> Any:
    """Return the padded input if its layout was padded so before, otherwise NOT_TAKEN."""
    if input.__class__ not in PLAIN or pad.__class__ is not tuple or value is not None:
        return NOT_TAKEN
    found = input._layout.routes.get((_mirror_again, pad, mode))
    if found is None or not _INTS.issuperset(map(type, pad)):
        return NOT_TAKEN
    take, node, indices = found
    out: Any = input
    for axis, index in indices:
        out = take(out, index, axis)
    if (edge := out._edge) is not None:
        edge._called = node
    return out


_INTS: Final = frozenset({int})


@before(by_table(_mirrors))
@composite(homes="functional", quick=_mirror_again)
def pad(input: Tensor, pad: Any, mode: str = "constant", value: complex | None = None) -> Tensor:
    """Return input with pad[0] elements added before and pad[1] after its last axis, pad[2] and
    pad[3] at the axis before it, and so on. Negative numbers remove elements.

    Mode "constant" adds `value` (default 0), "reflect" adds elements mirrored at the border
    element, "replicate" repeats the border element, "circular" adds elements from the other end.

    Raises  RuntimeError for numbers that do not fit, NotImplementedError for a mode or a number of
            axes that PyTorch does not support

    Args:
        input: A tensor of any dtype. Modes other than "constant" pad the last axes, and need one or
            two axes in front of them.
        pad: Two numbers for each axis, starting with the last axis.
        mode: "constant", "reflect", "replicate" or "circular".
        value: The number to fill with, for "constant"; 0 if None.

    Example:
        >>> F.pad(torch.tensor([[1.0, 2.0]]), (1, 0, 0, 1))
        tensor([[0., 1., 2.],
                [0., 0., 0.]])
    """
    shape = input._layout.shape
    if mode == "constant":
        if value.__class__ is int and value.bit_length() > 63:
            value = float(value)
        number = 0.0 if value is None else value
        if are_ints(pad):
            made = _place_in(_known_frame(pad, shape), input, number)
        else:
            made = constant_pad(input, _ends(pad, shape), number)
        return made if input._layout.contiguous else in_format_of(input, made)
    # `_known_ends` caches, because networks pad images of the same size at each step.
    find = _known_ends if mode.__class__ is str and are_ints(pad) else _checked_ends
    ends = find(mode, pad, shape)
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    given, device, node = input, input._layout.device, _node(mode, len(ends))
    take: Any = (select_slices if mode == "circular" else _taken).public
    indices = []
    for axis, ahead, behind in ends:
        (index,) = on_device(device, _places, mode, shape[axis], ahead, behind)
        input = take(input, index, axis)
        indices.append((axis, index))
    if mode != "circular" and not given._layout.contiguous:
        in_format_of(given, input)
    elif find is _known_ends and pad.__class__ is tuple and given.__class__ in PLAIN:
        given._layout.routes.remember((_mirror_again, pad, mode), (take, node, indices))
    return recorded_as(node, input, ())


def _checked_ends(mode: str, pad: Sequence[int], shape: Shape) -> tuple[tuple[int, int, int], ...]:
    """Return (axis, before, after) for each axis to be padded in a mode other than "constant"."""
    ends = _ends(pad, shape)
    if mode not in _MODES:
        raise NotImplementedError(
            f"Unrecognised padding mode {short_text(mode)}; known: {', '.join(_MODES)}"
        )
    if not (1 <= len(ends) <= 3 and 1 <= len(shape) - len(ends) <= 2):
        raise NotImplementedError(
            f"Padding size {2 * len(ends)} is not supported for {len(shape)}D input tensor: mode "
            f"{short_repr(mode)} pads the last axis of 2 or 3, the last two of 3 or 4, the last "
            "three of 4 "
            "or 5"
        )
    _require_room(mode, shape, ends)
    return tuple([(axis, before, behind) for axis, (before, behind) in ends.items()])


_known_ends = functools.lru_cache(maxsize=256)(_checked_ends)


@functools.cache
def _node(mode: str, axes: int) -> str:
    """Return PyTorch's name for the Node. In PyTorch, copies of slices make circular padding."""
    word = {"reflect": "reflection_pad", "replicate": "replication_pad"}.get(mode)
    return "CopySlices" if word is None else node_named(f"{word}{axes}d")


def _ends(pad: Sequence[int], shape: Shape) -> dict[int, tuple[int, int]]:
    """Return a dict from axis to (elements before, elements after). The last axis comes first.

    Raises  RuntimeError for a list of odd or excessive length
    """
    numbers = [n.__index__() for n in all_of(pad)]
    if len(numbers) % 2:
        raise ShapeError(
            f"Padding length must be divisible by 2, got {len(numbers)}: {short_repr(pad)}"
        )
    if len(numbers) > 2 * len(shape):
        raise ShapeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(numbers)} and input of dimension {len(shape)}"
        )
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return {len(shape) - 1 - i: pair for i, pair in enumerate(pairs)}


def _require_room(mode: str, shape: Shape, ends: dict[int, tuple[int, int]]) -> None:
    """Raise RuntimeError if an axis is too short for the mode, or if no elements would remain."""
    axes, sizes = len(ends), list(shape)
    if mode == "circular":
        for axis, (before, behind) in ends.items():
            kept = shape[axis] + min(before, 0) + min(behind, 0)
            if shape[axis] + before + behind < 0:
                raise ShapeError(
                    "Negative padding value is resulting in an empty dimension: padding "
                    f"({before}, {behind}) at dimension {axis} of input {short_repr(sizes)}"
                )
            if max(before, behind) > kept:
                raise ShapeError(
                    "Padding value causes wrapping around more than once: padding "
                    f"({before}, {behind}) at dimension {axis} of input {short_repr(sizes)}, of "
                    f"which {kept} "
                    "are left to go round"
                )
        return
    if 0 in shape[-axes - 1 :]:
        raise ShapeError(
            f"Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {short_repr(sizes)}"
        )
    if mode == "reflect":
        for argument, (axis, pair) in enumerate(ends.items()):
            if max(pair) >= shape[axis]:
                raise ShapeError(
                    f"Argument #{4 + 2 * argument}: Padding size should be less than the "
                    f"corresponding input dimension, but got: padding {pair} at dimension {axis} "
                    f"of input {short_repr(sizes)}"
                )
    left = [shape[axis] + sum(pair) for axis, pair in reversed(ends.items())]
    if max(left) < 1 or min(left) < 0:
        names = ("D", "H", "W")[-axes:]
        given = ", ".join([f"{n}: {shape[a]}" for n, a in zip(names, sorted(ends), strict=True)])
        found = " ".join([f"{n}: {size}" for n, size in zip(names, left, strict=True)])
        raise ShapeError(f"input ({given}) is too small. Calculated output {found}")


def constant_pad(input: Tensor, ends: dict[int, tuple[int, int]], value: complex) -> Tensor:
    """Return input padded with `value`. `ends` holds the numbers of elements to add before and
    after each axis; negative numbers remove elements.
    """
    return _place_in(_frame_of(tuple(ends.items()), input._layout.shape), input, value)


def _frame_of(ends: tuple[tuple[int, tuple[int, int]], ...], shape: Shape) -> Any:
    """Return (axis, start, length) for each axis of which only a part is kept; the padded shape;
    the index of the kept part in the padded tensor; and whether the kept part fills that tensor.
    """
    lengths, index, parts = list(shape), [(0, n) for n in shape], []
    for axis, (ahead, behind) in ends:
        start = max(-ahead, 0)
        kept = lengths[axis] - start - max(-behind, 0)
        if kept < 0:
            raise ShapeError(
                f"The input size {lengths[axis]}, plus negative padding {ahead} and {behind}, "
                f"resulted in a negative output size, which is invalid. Check dimension {axis} of "
                "your input."
            )
        if start or kept < lengths[axis]:
            parts.append((axis, start, kept))
        lengths[axis] = kept + max(ahead, 0) + max(behind, 0)
        index[axis] = max(ahead, 0), max(ahead, 0) + kept
    is_whole = all(max(pair) <= 0 for _, pair in ends)
    return parts, tuple(lengths), tuple(index), is_whole


@functools.lru_cache(maxsize=256)
def _known_frame(pad: tuple[int, ...], shape: Shape) -> Any:
    return _frame_of(tuple(_ends(pad, shape).items()), shape)


def _place_in(frame: Any, input: Tensor, value: complex) -> Tensor:
    parts, shape, where, is_whole = frame
    for axis, start, kept in parts:
        input = narrow(input, axis, start, kept)
    if is_whole or (not value and math.copysign(1.0, value.real) > 0):
        return place(input, shape, where)
    dtype = input._layout.dtype
    if value.real < 0 and dtype.numpy.kind == "u":
        raise not_held(value, dtype)
    return place(input, shape, where, value)


def _places(mode: str, n: int, before: int, behind: int) -> tuple[Any]:
    """Return the source index, on an axis of length n, of each element of the padded axis."""
    if mode == "circular":
        # Negative padding first removes elements; then the remaining elements wrap around.
        start, kept = max(-before, 0), n + min(before, 0) + min(behind, 0)
        return (start + count_up(-max(before, 0), kept + max(behind, 0)) % max(kept, 1),)
    places = count_up(-before, n + behind)
    if mode == "replicate":
        return (places.clip(0, n - 1),)
    mirrored = np.abs(places)
    return (np.where(mirrored >= n, 2 * (n - 1) - mirrored, mirrored),)
