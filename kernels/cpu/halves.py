"""Half types in kernels: kernels compute in float32, and results are rounded once.

Kernels that compute get float32 copies of arrays of half types. Kernels that only move elements get
such arrays unchanged. Only pointwise loops widen and round while they read and write
(pointwise.py); the pointwise loop of the identity makes the copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import FLOAT8, WIDE
from fastdist.language.scalar import Body, Call, Name

from . import float8
from .pointwise.pointwise import HALF_LIMIT, kernel_for
from .silence import silent
from .small.call_facts import CallFacts

Array = Any

# Kernels that move elements of any dtype, or cast them, without computing.
MOVES: Final = frozenset(
    {
        f"shape.copying.{name}"
        for name in ("cast", "cat", "fill_by", "flip", "place", "place_diagonal", "roll")
    }
    | {f"index.indexing.{name}" for name in ("gather", "put_zeros", "scatter", "scatter_zeros")}
    | {"shape.copying.triangle", "index.indexing.select", "index.indexing.take", "nn.windows.pick"}
)
# The kernels of MOVES that keep the dtype: they move the bytes of float8 types.
_OF_BYTES: Final = MOVES - {"shape.copying.cast", "shape.copying.cat"}
# NumPy casts up to this many bfloat16 numbers faster than a compiled loop starts: 2048 numbers are
# widened in 0.6 us, and rounded in 1.3 us (AMD EPYC, Zen 5). It casts float16 numbers one by one.
_BFLOAT16_LIMIT: Final = 2048
# Kernels that overwrite every element of their results without reading it.
_WRITES_ALL: Final = frozenset({"linalg.product.linear", "linalg.product.matmul"})


def in_float32(name: str, kernel: Callable[..., None], reads: int) -> Callable[..., None]:
    """Return a kernel that also takes arrays of half types. `reads` is the number of leading
    arguments that the kernel only reads.

    Note    kernels may add to their results, so the float32 copies of results start with the old
            values
    """
    if name in _OF_BYTES:
        return _of_bytes(kernel)
    if name in MOVES:
        return kernel
    wide_of, keeps = WIDE, name not in _WRITES_ALL

    def run(*arguments: Any) -> None:
        wide, written = list(arguments), []
        for i, array in enumerate(arguments):
            if isinstance(array, np.ndarray) and array.dtype in wide_of:
                copy = wide[i] = np.empty_like(array, wide_of[array.dtype])
                if i < reads:
                    convert(array, copy)
                else:
                    written.append((array, copy))
                    if keeps:
                        convert(array, copy)
        kernel(*wide)
        for array, copy in written:
            convert(copy, array)

    return run


def _of_bytes(kernel: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls `kernel`, which moves elements or writes zeros. It views arrays
    of float8 types as arrays of bytes, because a 0 that NumPy writes into an array of such a type
    may become NaN.
    """

    def run(*arguments: Any) -> None:
        if FLOAT8 and any(one.dtype in FLOAT8 for one in arguments if one.__class__ is np.ndarray):
            arguments = tuple([_as_bytes(one) for one in arguments])
        kernel(*arguments)

    return run


def _as_bytes(value: Any) -> Any:
    is_float8 = value.__class__ is np.ndarray and value.dtype in FLOAT8
    return value.view(f"u{value.dtype.itemsize}") if is_float8 else value


def computed_in_float32(
    name: str,
    find: Callable[[CallFacts], Callable[..., Any] | None],
    facts: CallFacts,
    results: Any,
) -> Callable[..., Any] | None:
    """Return a function that computes with what `find` returns for float32 instead of half types.
    It makes float32 copies of its arguments, and rounds the results to the dtypes in `results`.
    Return None for a kernel that moves elements, except for casts of few numbers.
    """
    if name == "shape.copying.cast":
        return _small_cast(facts)
    if name in MOVES:
        return None
    as_wide = [None if dtype is None else WIDE.get(dtype, dtype) for dtype in facts.dtypes]
    make = find(facts._replace(dtypes=tuple(as_wide), dtype=WIDE.get(facts.dtype, facts.dtype)))
    if make is None:
        return None

    is_float8 = FLOAT8 and any(dtype in FLOAT8 for dtype in (*facts.dtypes, *results))
    sizes = [math.prod(shape) for shape in (*facts.shapes, facts.shape) if shape is not None]
    if max(sizes) <= most_by_numpy(*facts.dtypes, *results) and not is_float8:
        return silent(_small(make, facts.dtypes, as_wide, results))

    def run(*arrays: Any) -> Any:
        found = make(*[None if one is None else _wide(one) for one in arrays])
        if found.__class__ not in (tuple, list):
            return _as(results[0], found)
        return tuple([_as(dtype, one) for dtype, one in zip(results, found, strict=True)])

    return silent(run)  # silent, because make may be a NumPy method, which has no frame


def gradients_in_float32(
    name: str,
    find: Callable[[CallFacts], tuple[Callable[..., Any] | None, ...] | None],
    facts: CallFacts,
) -> tuple[Callable[..., Any] | None, ...] | None:
    """Return gradient functions of a matrix product of half types. They call the functions that
    `find` returns for float32 with float32 copies, and round each gradient to the dtype of its
    input. Return None for other kernels.
    """
    if name not in _WRITES_ALL or facts.dtype in FLOAT8:
        return None
    wide = tuple([None if one is None else WIDE.get(one, one) for one in facts.dtypes])
    found = find(facts._replace(dtypes=wide, dtype=WIDE.get(facts.dtype, facts.dtype)))
    if found is None:
        return None

    def rounded(make: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
        return lambda *arrays: _as(dtype, make(*map(_wide, arrays)))

    return tuple(
        [
            make and silent(rounded(make, dtype))
            for make, dtype in zip(found, facts.dtypes, strict=False)
        ]
    )


def _small_cast(facts: CallFacts) -> Callable[..., Any] | None:
    """Return NumPy's cast from or to a half type if the numbers are few and real, else None."""
    dtype, dtypes = facts.dtype, (*facts.dtypes, facts.dtype)
    if math.prod(facts.shape) > most_by_numpy(*dtypes) or (
        FLOAT8 and any(one in FLOAT8 for one in dtypes)
    ):
        return None
    if not all(one.kind == "f" or one in WIDE for one in dtypes):
        return None
    return silent(lambda x: x.astype(dtype, "C"))


def most_by_numpy(*dtypes: Any) -> int:
    """Return the largest number of elements of these dtypes that NumPy casts."""
    halves = {dtype.name for dtype in dtypes if dtype in WIDE}
    return _BFLOAT16_LIMIT if halves == {"bfloat16"} else HALF_LIMIT


def _small(make: Callable[..., Any], given: Any, wide: Any, results: Any) -> Callable[..., Any]:
    """Return a function for few numbers: `make`, with arguments and result cast by NumPy.

    Note    8x8 bfloat16 @ bfloat16 takes 2.9 us less than with `_wide` and `_as` (Zen 3)
    """
    halves = [one is not other for one, other in zip(given, wide, strict=True)]
    result, *others = results
    one_type = all(halves) and result in WIDE and not others
    if one_type and len(wide) == 2:
        a, b = wide
        return lambda x, y: make(x.astype(a), y.astype(b)).astype(result)
    if one_type and len(wide) == 3:
        a, b, c = wide
        return lambda x, y, z: make(x.astype(a), y.astype(b), z.astype(c)).astype(result)
    if one_type and len(wide) == 1:
        (f32,) = wide
        return lambda x: make(x.astype(f32)).astype(result)

    def run(*arrays: Any) -> Any:
        cast = [
            one.astype(dtype) if is_half else one
            for one, dtype, is_half in zip(arrays, wide, halves, strict=True)
        ]
        if not others:
            return make(*cast).astype(result, copy=False)
        found = zip(make(*cast), results, strict=True)
        return tuple([one.astype(dtype, copy=False) for one, dtype in found])

    return run


def convert_many(x: Array, to: Array) -> bool:
    """Write x into `to` by a compiled loop and return True, if this widens a half type to float32,
    or rounds float32 to a half type. Otherwise return False.

    Note    times in us for 2^19 numbers with NumPy | here, on one core of an AMD EPYC (Zen 4): from
            float16 859 | 36, to float16 1283 | 34, from bfloat16 39 | 36, to bfloat16 330 | 50
    """
    wide, given, wanted = WIDE, x.dtype, to.dtype
    if given is wanted or not (given in wide or wanted in wide):
        return False
    if wide.get(given, given) is not wide.get(wanted, wanted):
        return False  # float64 would be rounded twice
    _AS_IT_IS.run_large((x,), to)
    return True


_AS_IT_IS: Final = kernel_for(Body.of(Name("x"), ("x",)))
_SUM: Final = kernel_for(Body.of(Call("add", (Name("x"), Name("y"))), ("x", "y")))


def add_many(x: Array, to: Array) -> bool:
    """Add x to `to` by a compiled loop and return True, if both have one half type and are large.
    Otherwise return False.

    Note    2^19 float16 take 4.1 ms with NumPy, 0.12 here (AMD EPYC, Zen 4)
    """
    if x.dtype is not to.dtype or to.size <= HALF_LIMIT:
        return False
    _SUM.run_large((to, x), to)
    return True


@silent
def convert(x: Array, to: Array) -> None:
    """Write x into `to`, of the same shape, with C's cast between the two dtypes."""
    if FLOAT8 and float8.wrote(x, to):
        return
    if to.size <= HALF_LIMIT or not convert_many(x, to):
        np.copyto(to, x, casting="unsafe")


def _wide(x: Array) -> Array:
    return _as(WIDE.get(x.dtype, x.dtype), x)


def _as(dtype: Any, x: Array) -> Array:
    if x.dtype == dtype:
        return x
    made = np.empty_like(x, dtype)
    convert(x, made)
    return made
