"""Sums of products given by index letters: einsum and tensordot."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.declaration import node_named, recorded_as
from ...dispatch.signature import ArgumentError
from ...tensor.axes import normalize_axis, reduced_shape
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor
from ..shape.diagonal import diagonal
from ..shape.views import permute
from .matmul import matmul


@composite(homes="function")
def einsum(equation: str | Tensor, *operands: Any) -> Tensor:
    """Return the sum of products that `equation` describes, such as "ij,jk->ik".

    Letters that do not occur in the result are summed over; `...` stands for axes that broadcast.
    Operands are multiplied from left to right, each time by one batched matrix product. Integers
    may replace letters: einsum(x, [0, 1], y, [1, 2], [0, 2]).

    Raises  RuntimeError if the equation is invalid, or does not fit the shapes of the operands

    Args:
        equation: One letter for each axis of each operand, "," between operands, and "->" before
            the axes of the result.
        *operands: The tensors, one for each term before the arrow of the equation.

    Returns:
        A tensor with the axes of the result, in their order.

    Example:
        >>> a, b = torch.ones(2, 3), torch.ones(3, 4)
        >>> torch.einsum("ij,jk->ik", a, b).shape
        fastdist.Size([2, 4])
        >>> torch.einsum("ii", torch.eye(3))
        tensor(3.)
    """
    if isinstance(equation, Tensor):
        equation, operands = _in_letters((equation, *operands))
    given = (
        operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    )
    for i, one in enumerate(given):
        if not isinstance(one, Tensor):
            raise ArgumentError(f"einsum(): operand {i} must be Tensor, not {short_repr(one)}")
    steps, name = planned(equation, *[one._layout.shape for one in given])
    values = list(given)
    for function, places, more in steps:
        values.append(function(*[values[place] for place in places], *more))
    return recorded_as(name, values[-1], ()) if name else values[-1]  # type: ignore[no-any-return]


class _Plan:
    """The steps of a call under construction. Operands and results are named by their places in a
    list: `shapes` has their shapes. A step is a function, the places of its tensors, and its other
    arguments. Its result has the next place.
    """

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self.shapes, self.steps = list(shapes), list[tuple[Any, tuple[int, ...], tuple[Any, ...]]]()

    def add(
        self, shape: Shape, function: Callable[..., Any], places: tuple[int, ...], *more: object
    ) -> int:
        """Add a step whose result has this shape; return the place of the result."""
        self.steps.append((function, places, more))
        self.shapes.append(shape)
        return len(self.shapes) - 1

    def permute(self, place: int, axes: list[int]) -> int:
        """Add a permutation, unless it changes nothing."""
        shape = self.shapes[place]
        if axes == list(range(len(shape))):
            return place
        return self.add(tuple([shape[axis] for axis in axes]), permute, (place,), *axes)

    def reshape(self, place: int, shape: Shape) -> int:
        """Add a change of the shape, unless it changes nothing."""
        return place if self.shapes[place] == shape else self.add(shape, _reshape, (place,), shape)

    def sum(self, place: int, axes: tuple[int, ...], *, keepdim: bool) -> int:
        """Add a sum over axes."""
        shape = reduced_shape(self.shapes[place], axes, keepdim)
        return self.add(shape, _sum, (place,), axes, keepdim)


def _reshape(tensor: Tensor, shape: Shape) -> Any:
    return tensor.reshape(shape)


def _expand(tensor: Tensor, shape: Shape) -> Any:
    return tensor.expand(shape)


def _squeeze(tensor: Tensor, axes: tuple[int, ...]) -> Any:
    return tensor.squeeze(axes)


def _sum(tensor: Tensor, axes: tuple[int, ...], keepdim: bool) -> Any:
    return tensor.sum(axes, keepdim)


@functools.lru_cache(maxsize=256)
def planned(equation: str, *shapes: Shape) -> tuple[Sequence[Any], str]:
    """Return the steps for an equation and operands of these shapes, and the name of the result's
    Node ("" for the name of the last step).
    """
    inputs, output = _parse(equation, shapes)
    plan = _Plan(shapes)
    result, letters = _single(plan, 0, inputs[0])
    for i, names in enumerate(inputs[1:], 2):
        later = set(output).union(*inputs[i:]) if i < len(inputs) else set(output)
        other, others = _single(plan, i - 1, names)
        result, letters = _contract(plan, result, letters, other, others, later)
    result, letters = _sum_alone(plan, result, letters, set(output))
    if set(letters) != set(output):
        raise ShapeError(f"einsum(): the result names {output}, the operands have {letters}")
    order = [letters.index(letter) for letter in output]
    summed = set().union(*inputs) - set(output)
    if len(inputs) > 1 or summed:
        plan.permute(result, order)
        return plan.steps, node_named("sum.1" if len(inputs) == 1 else "view" if summed else "mul")
    # Here the permutation is the only step, or the last one after a diagonal.
    shape = tuple([plan.shapes[result][axis] for axis in order])
    plan.add(shape, permute, (result,), *order)
    return plan.steps, ""


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _in_letters(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Convert (operand, its integers, ..., integers of the result) to an equation and operands."""

    def named(numbers: Any) -> str:
        if any(one is not Ellipsis and not 0 <= one < len(_LETTERS) for one in numbers):
            raise ShapeError(
                f"einsum(): subscripts are in 0 ... {len(_LETTERS) - 1} or an Ellipsis, got "
                f"{short_repr(list(numbers))}"
            )
        return "".join("..." if one is Ellipsis else _LETTERS[one] for one in numbers)

    left = ",".join(named(numbers) for numbers in given[1::2])
    if len(given) % 2:
        return f"{left}->{named(given[-1])}", given[:-1:2]
    return left, given[::2]


def _parse(equation: str, shapes: Sequence[Shape]) -> tuple[list[list[str]], list[str]]:
    """Return the letters of each operand and of the result, with digits for the axes of `...`."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(shapes):
        raise ShapeError(
            f"einsum(): equation {short_repr(equation)} names {len(parts)} operands, "
            f"{len(shapes)} "
            "were given"
        )
    dots = 0
    for part, shape in zip(parts, shapes, strict=True):
        if "..." in part:
            dots = max(dots, len(shape) - len(part.replace("...", "")))
    inputs = [_letters(part, len(shape), dots) for part, shape in zip(parts, shapes, strict=True)]
    if arrow:
        return inputs, _letters(right, -1, dots)
    seen = [letter for letters in inputs for letter in letters]
    once = sorted({letter for letter in seen if letter.isalpha() and seen.count(letter) == 1})
    return inputs, [*(str(i) for i in range(dots) if str(i) in seen), *once]


def _letters(part: str, ndim: int, dots: int) -> list[str]:
    before, has_dots, after = part.partition("...")
    if not all(letter.isalpha() for letter in before + after):
        raise ShapeError(
            f"einsum(): invalid subscript {short_repr(part)}; letters and ... are allowed"
        )
    middle = dots if ndim < 0 else ndim - len(before) - len(after)
    if ndim >= 0 and (middle < 0 or (middle and not has_dots)):
        raise ShapeError(
            f"einsum(): the subscript {short_repr(part)} has {len(before + after)} letters, its "
            "operand "
            f"{ndim} axes"
        )
    return [*before, *([str(i) for i in range(dots - middle, dots)] if has_dots else []), *after]


def _single(plan: _Plan, place: int, letters: list[str]) -> tuple[int, list[str]]:
    """Return the place of an operand and its letters, each letter once: the axes of a repeated
    letter are replaced by their diagonal.

    Raises  RuntimeError if the axes of a repeated letter have different lengths
    """
    number, letters = place, list(letters)
    sizes: dict[str, int] = {}
    for letter, size in zip(letters, plan.shapes[place], strict=True):
        if size != sizes.setdefault(letter, size):
            raise ShapeError(
                f"einsum(): subscript {letter} is repeated for operand {number} but the sizes "
                f"don't match, {short_repr(size)} != {sizes[letter]}"
            )
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            letters = [x for i, x in enumerate(letters) if i not in (first, second)] + [letter]
            shape = tuple([sizes[one] for one in letters])
            place = plan.add(shape, diagonal, (place,), 0, first, second)
    return place, letters


def _contract(
    plan: _Plan, a: int, a_letters: list[str], b: int, b_letters: list[str], later: set[str]
) -> tuple[int, list[str]]:
    """Return the product of two operands, summed over the letters that are not in `later`.

    Dtype  with a sum, the rules of a matrix product apply; without a sum, the rules of mul, which
           promotes dtypes and accepts bool, as in PyTorch
    """
    a, a_letters = _sum_alone(plan, a, a_letters, later | set(b_letters))
    b, b_letters = _sum_alone(plan, b, b_letters, later | set(a_letters))
    _lengths(plan, a, a_letters, b, b_letters)
    a, b = (
        _sum_stretched(plan, a, a_letters, b, b_letters, later),
        _sum_stretched(plan, b, b_letters, a, a_letters, later),
    )
    a, a_letters = _without_ones(plan, a, a_letters, later)
    b, b_letters = _without_ones(plan, b, b_letters, later)
    lengths = _lengths(plan, a, a_letters, b, b_letters)
    shared = [letter for letter in a_letters if letter in b_letters]
    batch = [letter for letter in shared if letter in later]
    summed = [letter for letter in shared if letter not in later]
    rows = [letter for letter in a_letters if letter not in shared]
    columns = [letter for letter in b_letters if letter not in shared]
    letters = [*batch, *rows, *columns]
    final = tuple([lengths[letter] for letter in letters])
    if not summed:
        left, right = _aligned(plan, a, a_letters, letters), _aligned(plan, b, b_letters, letters)
        return plan.add(final, operator.mul, (left, right)), letters
    # Without batch letters, the operands become matrices without a batch axis: their product is
    # faster than the product of batches of one matrix.
    before = (batch,) if batch else ()
    left = _grouped(plan, a, a_letters, (*before, rows, summed), lengths)
    right = _grouped(plan, b, b_letters, (*before, summed, columns), lengths)
    shape = (*plan.shapes[left][:-1], plan.shapes[right][-1])
    return plan.reshape(plan.add(shape, matmul, (left, right)), final), letters


def _sum_stretched(
    plan: _Plan, a: int, a_letters: list[str], b: int, b_letters: list[str], later: set[str]
) -> int:
    """Return the first operand. If a summed axis has length 1 in the second operand only, the first
    operand is summed along this axis before the product, and the axis keeps length 1.
    """
    shape, other = plan.shapes[a], plan.shapes[b]
    axes = tuple(
        i
        for i, letter in enumerate(a_letters)
        if letter not in later
        and letter in b_letters
        and shape[i] != 1 == other[b_letters.index(letter)]
    )
    return plan.sum(a, axes, keepdim=True) if axes else a


def _without_ones(
    plan: _Plan, place: int, letters: list[str], later: set[str]
) -> tuple[int, list[str]]:
    """Return an operand without axes of length 1 whose letters are summed over."""
    shape = plan.shapes[place]
    ones = tuple(i for i, one in enumerate(letters) if one not in later and shape[i] == 1)
    if not ones:
        return place, letters
    kept = [letter for i, letter in enumerate(letters) if i not in ones]
    return plan.add(reduced_shape(shape, ones, False), _squeeze, (place,), ones), kept


def _aligned(plan: _Plan, place: int, letters: list[str], order: list[str]) -> int:
    """Return an operand with its axes in the order of the letters `order`. Letters of `order` that
    are not in `letters` get axes of length 1.
    """
    here = [letter for letter in order if letter in letters]
    place = plan.permute(place, [letters.index(letter) for letter in here])
    lengths = dict(zip(here, plan.shapes[place], strict=True))
    return plan.reshape(place, tuple([lengths.get(letter, 1) for letter in order]))


def _lengths(
    plan: _Plan, a: int, a_letters: list[str], b: int, b_letters: list[str]
) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for place, letters in ((a, a_letters), (b, b_letters)):
        for letter, n in zip(letters, plan.shapes[place], strict=True):
            known = lengths.setdefault(letter, n)
            if known != n and 1 not in (known, n):
                raise ShapeError(
                    "einsum(): operands do not broadcast with remapped shapes: "
                    f"{letter} is {known} and {n}"
                )
            lengths[letter] = n if known == 1 else known
    return lengths


def _sum_alone(
    plan: _Plan, place: int, letters: list[str], needed: set[str]
) -> tuple[int, list[str]]:
    gone = tuple(i for i, letter in enumerate(letters) if letter not in needed)
    if not gone:
        return place, letters
    return plan.sum(place, gone, keepdim=False), [one for one in letters if one in needed]


def _grouped(
    plan: _Plan,
    place: int,
    letters: list[str],
    groups: tuple[list[str], ...],
    lengths: dict[str, int],
) -> int:
    """Return an operand with one axis for each group of letters."""
    order = [letter for group in groups for letter in group]
    place = plan.permute(place, [letters.index(letter) for letter in order])
    whole = tuple([lengths[letter] for letter in order])
    if plan.shapes[place] != whole:
        place = plan.add(whole, _expand, (place,), whole)
    return plan.reshape(
        place, tuple([math.prod([lengths[letter] for letter in group]) for group in groups])
    )


@composite(homes="function", out="same", node="view")
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Return the sum of products over the axes `dims`. They are given as a number of axes (the last
    axes of a and the first axes of b), or as two lists of axes.
    """
    n, m = len(a._layout.shape), len(b._layout.shape)
    if hasattr(dims, "__index__"):
        if dims < 0:
            raise ShapeError(f"tensordot expects dims >= 0, but got dims={short_repr(dims)}")
        if dims > min(n, m):
            raise ShapeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={short_repr(dims)}: a is "
                f"{a._layout.shape} and b is {b._layout.shape}; give {min(n, m)} at most"
            )
        left, right = list(range(n - dims, n)), list(range(dims))
    elif len(dims[0]) != len(dims[1]):
        raise ShapeError(
            "both dimension lists should have same length: tensordot got "
            f"{short_repr(list(dims[0]))} and {short_repr(list(dims[1]))}"
        )
    else:
        left = [normalize_axis("tensordot", d, n) for d in dims[0]]
        right = [normalize_axis("tensordot", d, m) for d in dims[1]]
    a, b = _summed_to_fit(a, left, b, right)
    names = "abcdefghijklmnopqrstuvwxyz"
    a_letters, b_letters = names[:n], list(names[n : n + m])
    for i, j in zip(left, right, strict=True):
        b_letters[j] = a_letters[i]
    kept = [x for i, x in enumerate(a_letters) if i not in left]
    kept += [x for j, x in enumerate(b_letters) if j not in right]
    return einsum(f"{a_letters},{''.join(b_letters)}->{''.join(kept)}", a, b)


def _summed_to_fit(a: Tensor, left: list[int], b: Tensor, right: list[int]) -> tuple[Any, Any]:
    """Return both operands. If one axis of a pair has length 1, the other axis is summed already.

    Unlike in sum(), integers keep their dtype.
    """
    for i, j in zip(left, right, strict=True):
        n, m = a._layout.shape[i], b._layout.shape[j]
        if n != m and m == 1:
            a = a.sum(i, True, dtype=a._layout.dtype)
        elif n != m and n == 1:
            b = b.sum(j, True, dtype=b._layout.dtype)
    return a, b
