"""Sums of products given by index letters: einsum and tensordot."""

from __future__ import annotations

from typing import Any

from ...core.errors import ShapeError
from ...core.short_repr import short_repr
from ...dispatch.composite import composite
from ...dispatch.declaration import node_named, recorded_as
from ...dispatch.signature import ArgumentError
from ...tensor.axes import normalize_axis
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

    Args:
        equation: One letter for each axis of each operand, "," between operands, and "->" before
            the axes of the result.
        *operands: The tensors.

    Returns:
        A tensor with the axes of the result, in their order.

    Raises:
        RuntimeError: The equation is invalid, or does not fit the shapes of the operands.

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
    inputs, output = _parse(equation, given)
    result, letters = _single(given[0], inputs[0], 0)
    for i, (tensor, names) in enumerate(zip(given[1:], inputs[1:], strict=True), 2):
        later = set(output).union(*inputs[i:]) if i < len(inputs) else set(output)
        other, others = _single(tensor, names, i - 1)
        result, letters = _contract(result, letters, other, others, later)
    found = _finish(result, letters, output)
    summed = set().union(*inputs) - set(output)
    if len(inputs) > 1:
        recorded_as(node_named("view" if summed else "mul"), found, ())
    elif summed:
        recorded_as(node_named("sum.1"), found, ())
    return found


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


def _parse(equation: str, operands: Any) -> tuple[list[list[str]], list[str]]:
    """Return the letters of each operand and of the result, with digits for the axes of `...`."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(operands):
        raise ShapeError(
            f"einsum(): equation {short_repr(equation)} names {len(parts)} operands, "
            f"{len(operands)} "
            "were given"
        )
    dots = 0
    for part, tensor in zip(parts, operands, strict=True):
        if "..." in part:
            dots = max(dots, len(tensor._layout.shape) - len(part.replace("...", "")))
    inputs = [
        _letters(part, len(t._layout.shape), dots) for part, t in zip(parts, operands, strict=True)
    ]
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


def _single(tensor: Tensor, letters: list[str], number: int) -> tuple[Any, list[str]]:
    """Return an operand and its letters, each letter once: the axes of a repeated letter are
    replaced by their diagonal. `number` is the operand's number in the error.

    Raises  RuntimeError if the axes of a repeated letter have different lengths
    """
    letters = list(letters)
    sizes: dict[str, int] = {}
    for letter, size in zip(letters, tensor._layout.shape, strict=True):
        if size != sizes.setdefault(letter, size):
            raise ShapeError(
                f"einsum(): subscript {letter} is repeated for operand {number} but the sizes "
                f"don't match, {short_repr(size)} != {sizes[letter]}"
            )
    for letter in sorted(set(letters)):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            tensor = diagonal(tensor, 0, first, second)
            letters = [x for i, x in enumerate(letters) if i not in (first, second)] + [letter]
    return tensor, letters


def _contract(
    a: Tensor, a_letters: list[str], b: Tensor, b_letters: list[str], later: set[str]
) -> tuple[Any, list[str]]:
    """Return the product of two operands, summed over the letters that are not in `later`.

    Dtype  with a sum, the rules of a matrix product apply; without a sum, the rules of mul, which
           promotes dtypes and accepts bool, as in PyTorch
    """
    a, a_letters = _sum_alone(a, a_letters, later | set(b_letters))
    b, b_letters = _sum_alone(b, b_letters, later | set(a_letters))
    _lengths(a, a_letters, b, b_letters)
    a, b = _sum_stretched(a, a_letters, b, b_letters, later)
    a, a_letters, b, b_letters = _without_ones(a, a_letters, b, b_letters, later)
    lengths = _lengths(a, a_letters, b, b_letters)
    shared = [letter for letter in a_letters if letter in b_letters]
    batch = [letter for letter in shared if letter in later]
    summed = [letter for letter in shared if letter not in later]
    rows = [letter for letter in a_letters if letter not in shared]
    columns = [letter for letter in b_letters if letter not in shared]
    letters = [*batch, *rows, *columns]
    if not summed:
        return _aligned(a, a_letters, letters) * _aligned(b, b_letters, letters), letters
    # Without batch letters, the operands become matrices without a batch axis: their product is
    # faster than the product of batches of one matrix.
    before = (batch,) if batch else ()
    left = _grouped(a, a_letters, (*before, rows, summed), lengths)
    right = _grouped(b, b_letters, (*before, summed, columns), lengths)
    product = matmul(left, right)
    return product.reshape([lengths[letter] for letter in letters]), letters


def _sum_stretched(
    a: Tensor, a_letters: list[str], b: Tensor, b_letters: list[str], later: set[str]
) -> tuple[Any, Any]:
    """Return both operands. If a summed axis has length 1 in one operand only, the other operand is
    summed along this axis before the product, and the axis keeps length 1.
    """
    found = []
    for tensor, letters, other, others in (
        (a, a_letters, b, b_letters),
        (b, b_letters, a, a_letters),
    ):
        axes = tuple(
            i
            for i, letter in enumerate(letters)
            if letter not in later
            and letter in others
            and tensor._layout.shape[i] != 1 == other._layout.shape[others.index(letter)]
        )
        found.append(tensor.sum(axes, True) if axes else tensor)
    return found[0], found[1]


def _without_ones(
    a: Tensor, a_letters: list[str], b: Tensor, b_letters: list[str], later: set[str]
) -> tuple[Any, list[str], Any, list[str]]:
    """Return both operands without axes of length 1 whose letters are summed over."""
    found: list[Any] = []
    for tensor, letters in ((a, a_letters), (b, b_letters)):
        ones = tuple(
            i
            for i, letter in enumerate(letters)
            if letter not in later and tensor._layout.shape[i] == 1
        )
        kept = [letter for i, letter in enumerate(letters) if i not in ones]
        found += [tensor.squeeze(ones) if ones else tensor, kept]
    return found[0], found[1], found[2], found[3]


def _aligned(tensor: Tensor, letters: list[str], order: list[str]) -> Any:
    """Return `tensor` with its axes in the order of the letters `order`. Letters of `order` that
    are not in `letters` get axes of length 1.
    """
    here = [letter for letter in order if letter in letters]
    tensor = permute(tensor, *[letters.index(letter) for letter in here])
    if len(here) == len(order):
        return tensor
    lengths = dict(zip(here, tensor._layout.shape, strict=True))
    return tensor.reshape([lengths.get(letter, 1) for letter in order])


def _lengths(a: Tensor, a_letters: list[str], b: Tensor, b_letters: list[str]) -> dict[str, int]:
    lengths: dict[str, int] = {}
    for tensor, letters in ((a, a_letters), (b, b_letters)):
        for letter, n in zip(letters, tensor._layout.shape, strict=True):
            known = lengths.setdefault(letter, n)
            if known != n and 1 not in (known, n):
                raise ShapeError(
                    "einsum(): operands do not broadcast with remapped shapes: "
                    f"{letter} is {known} and {n}"
                )
            lengths[letter] = n if known == 1 else known
    return lengths


def _sum_alone(tensor: Tensor, letters: list[str], needed: set[str]) -> tuple[Any, list[str]]:
    gone = tuple(i for i, letter in enumerate(letters) if letter not in needed)
    if not gone:
        return tensor, letters
    return tensor.sum(gone), [letter for letter in letters if letter in needed]


def _grouped(
    tensor: Tensor, letters: list[str], groups: tuple[list[str], ...], lengths: dict[str, int]
) -> Any:
    """Return `tensor` with one axis for each group of letters."""
    order = [letter for group in groups for letter in group]
    if order != letters:
        tensor = permute(tensor, *[letters.index(letter) for letter in order])
    whole = tuple([lengths[letter] for letter in order])
    if tensor._layout.shape != whole:
        tensor = tensor.expand(*whole)
    if all(len(group) == 1 for group in groups):
        return tensor
    shape = []
    for group in groups:
        n = 1
        for letter in group:
            n *= lengths[letter]
        shape.append(n)
    return tensor.reshape(shape)


def _finish(result: Tensor, letters: list[str], output: list[str]) -> Tensor:
    result, letters = _sum_alone(result, letters, set(output))
    if set(letters) != set(output):
        raise ShapeError(f"einsum(): the result names {output}, the operands have {letters}")
    return permute(result, *[letters.index(letter) for letter in output])


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
