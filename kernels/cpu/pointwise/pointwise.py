"""Pointwise kernels of the CPU: one scalar body, computed by NumPy or by Numba.

NumPy computes results of up to SMALL_LIMIT elements, and Numba computes larger ones. The choice
depends on size, dtype and body, never on which loops are compiled, so that a result does not depend
on earlier calls. For a body of one cheap NumPy call the limit is CHEAP_LIMIT: several threads are
faster from there on. For bodies with functions that NumPy does not have (erf, lgamma ...) the limit
is SPECIAL_LIMIT: without Numba, a Python function is called for each number, at 60 ns per call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from fastdist.core.dtypes import WIDE
from fastdist.language.scalar import Body, Call, Literal, Name, substitute, walk

from ..silence import define_silent, silent
from .numpy_pointwise import SCALAR_FUNCTIONS, fold, gives_bool, into_function, small_function

Array = Any

# Times in us with NumPy and with Numba, for float32 with `out`, on one core of an AMD EPYC (Zen 4).
# x + y takes 0.9 and 1.9 for 4096 elements, and 2.9 and 3.9 for 32768. x / (1 + abs(y)) takes 2.2
# and 1.7 for 1024 elements, and 3.0 and 2.0 for 4096.
SMALL_LIMIT: Final = 4096
CHEAP_LIMIT: Final = 32768
_ORDERING: Final = frozenset({"maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"})
_CHEAP: Final = _ORDERING | {"add", "sub", "mul", "div", "neg", "abs", "square"}
SPECIAL_LIMIT: Final = 64
# NumPy casts float16 numbers one by one. exp takes, in us with NumPy and with Numba: 2.2 and 1.7
# for 256 numbers, 9.6 and 2.2 for 1024, 28 and 3.3 for 4096.
HALF_LIMIT: Final = 256
# Powers with these exponents, and the powers in their gradients, are computed as products and
# roots. The exponent is nearly always a single number, and libm's pow takes 8 ns per element.
SHORT_EXPONENTS: Final = frozenset({2.0, 3.0, 0.5, -0.5, -1.0, -2.0})


class PointwiseKernel:
    """The CPU kernel of one body. Use kernel_for, which makes one kernel for each body.

    Thread  any, several at once
    Note    `small(*arrays)` is the NumPy version, which returns a new result, for eager calls
    """

    __slots__ = (
        "_exponent", "_into", "_is_step", "_loops", "_names", "_short", "_small", "_tree", "limit",
        "small",
    )  # fmt: skip

    def __init__(self, body: Body) -> None:
        self._names = body.names
        self._tree = fold(body.tree)
        self._small: Callable[..., Array] = small_function(body)
        is_special = any(
            isinstance(node, Call) and node.primitive in SCALAR_FUNCTIONS
            for node in walk(self._tree)
        )
        of_one = self._tree.primitive if isinstance(self._tree, Call) else ""
        is_cheap = isinstance(self._small, np.ufunc) and of_one in _CHEAP
        self._is_step = of_one == "nextafter"
        self.limit = SPECIAL_LIMIT if is_special else CHEAP_LIMIT if is_cheap else SMALL_LIMIT
        self.small = self._small_special if is_special else self._small
        self._into = into_function(body)
        # For each key of dtypes: the compiled loop, or _run_wide if compiled code may not hold the
        # dtypes, or None if NumPy computes results of any size.
        self._loops: dict[Any, Callable[..., None] | None] = {}
        self._exponent = _exponent_of(body)
        self._short: dict[float, PointwiseKernel] = {}

    def run(self, arrays: Sequence[Array], out: Array) -> None:
        """Compute the body of `arrays`, which broadcast to out's shape, and write it into out.

        Note    inputs may overlap out in any way; half types are computed in float32 and rounded
                once
        """
        if not is_half([out.dtype, *[array.dtype for array in arrays]]):
            self.compute(arrays, out)
        elif self.is_small_among_halves(out.size):
            run_wide(self.compute, arrays, out)
        else:
            self.run_large(arrays, out)

    def compute(self, arrays: Sequence[Array], out: Array) -> None:
        """Do the same as `run`, only for dtypes that are not half types."""
        if out.size <= self.limit:
            self.run_small(arrays, out)
        else:
            self.run_large(arrays, out)

    def is_small_among_halves(self, size: int) -> bool:
        """Return whether NumPy computes a result of `size` elements that has a half type, or is
        computed from half types.
        """
        return size <= min(self.limit, HALF_LIMIT) and not self._is_step

    def small_among_halves(
        self, dtypes: Sequence[Any], out_dtype: Any, size: int
    ) -> Callable[..., Array] | None:
        """Return a version of `small` for arrays of these dtypes, some of which are half types, and
        a result of `size` elements. Return None if run_large is faster.
        """
        if not self.is_small_among_halves(size):
            return None
        names = [f"x{i}" for i in range(len(dtypes))]
        given = [
            f"{name}.astype(wide)" if dtype in WIDE else name
            for name, dtype in zip(names, dtypes, strict=True)
        ]
        rounded = ".astype(dtype)" if out_dtype in WIDE else ""
        source = f"def small({', '.join(names)}): return make({', '.join(given)}){rounded}"
        known = {"make": self.small, "wide": np.dtype(np.float32), "dtype": out_dtype}
        return define_silent(source, "small", known)

    def run_small(self, arrays: Sequence[Array], out: Array) -> None:
        """Do the same as `compute`, with NumPy."""
        self._into(out, *arrays)

    def run_large(
        self, arrays: Sequence[Array], out: Array
    ) -> Callable[[tuple[Array, ...]], None] | None:
        """Do the same as `compute`, with Numba if it can compile the body for these dtypes.

        Return the loop, a function of the tuple (*arrays, out), for later calls whose operands have
        the same dtypes, and are 0-d where the present ones are 0-d. Return None if the operands of
        the next call must be checked again.
        """
        dtype, at = out.dtype, self._exponent
        if at is not None and not arrays[at].shape and _is_as_wide(arrays[at].dtype, dtype):
            exponent = arrays[at].item()
            # A complex 2 equals 2.0, but complex powers are left to NumPy.
            if exponent.__class__ is not complex and exponent in SHORT_EXPONENTS:
                self._with_exponent(exponent).run_large([*arrays[:at], *arrays[at + 1 :]], out)
                return None
        for array in arrays:
            if array.dtype is not dtype or not array.ndim:
                key: Any = *[(one.dtype, one.ndim == 0 < out.ndim) for one in arrays], dtype
                break
        else:
            key = dtype  # all have one dtype; this key takes a third of the time of a tuple
        try:
            loop = self._loops[key]
        except KeyError:
            loop = self._compile_or_serve(key, arrays, out)
        if loop is not None:
            loop((*arrays, out))
            return loop if at is None else None
        if not self._is_step and is_half([array.dtype for array in (*arrays, out)]):
            run_wide(self.run_small, arrays, out)
        else:
            self.run_small(arrays, out)
        return None

    def _compile_or_serve(
        self, key: Any, arrays: Sequence[Array], out: Array
    ) -> Callable[..., None] | None:
        """Compile the loop and return it; return None while NumPy must be used."""
        # Imported late, so that importing fastdist does not import these modules.
        from ..jit.background import compile_later, numpy_serves

        numbers = [n for n, one in zip(self._names, arrays) if one.ndim == 0 < out.ndim]
        dtypes = [one.dtype for one in arrays]
        compile_it = partial(self._compile, key, dtypes, out.dtype, numbers)
        if not numpy_serves():
            return compile_it()
        compile_later((self, key), compile_it)
        return None

    def _with_exponent(self, exponent: float) -> PointwiseKernel:
        """Return the kernel for a constant exponent, which computes powers as products or roots."""
        found = self._short.get(exponent)
        if found is None:
            assert self._exponent is not None
            name = self._names[self._exponent]
            tree = substitute(self._tree, {name: Literal(exponent)})
            names = [one for one in self._names if one != name]
            found = self._short.setdefault(exponent, kernel_for(Body.of(tree, names)))
        return found

    def _small_special(self, *arrays: Array) -> Array:
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
        if math.prod(shape) <= SPECIAL_LIMIT:
            return self._small(*arrays)
        out = np.empty(shape, bool if gives_bool(self._tree) else np.result_type(*arrays))
        self.run_large(arrays, out)
        return out

    def _compile(
        self, key: Any, dtypes: Sequence[Any], out_dtype: Any, numbers: Sequence[str]
    ) -> Callable[..., None] | None:
        from ..jit.waiting import compiling, describe_kernel, waiting_for

        what = describe_kernel(self._tree, out_dtype)
        with waiting_for(what):
            # Imported late, because small tensors never need these modules.
            from ..half_tables import looking_up
            from ..jit.launch import launcher
            from .numba_pointwise import can_compile, can_hold, find_pointwise_loop, looks_up

            with compiling(what):
                if key not in self._loops:
                    found: Callable[..., None] | None = None
                    if not dtypes or not can_compile(self._tree, dtypes):
                        pass
                    elif self._is_step and is_half([*dtypes, out_dtype]):
                        pass  # nextafter in float32 would be rounded back to the same half number
                    elif can_hold([*dtypes, out_dtype]):
                        loop = find_pointwise_loop(
                            self._tree, self._names, dtypes, out_dtype, numbers
                        )
                        found = launcher(loop)
                        if not numbers and looks_up(self._tree, dtypes, out_dtype):
                            found = looking_up(found, out_dtype)
                    else:
                        found = self._run_wide
                    self._loops[key] = found
                return self._loops[key]

    def _run_wide(self, operands: Sequence[Array]) -> None:
        run_wide(self.compute, operands[:-1], operands[-1])


def is_half(dtypes: Sequence[Any]) -> bool:
    """Return whether one of dtypes is a half type."""
    return not WIDE.keys().isdisjoint(dtypes)


@silent
def run_wide(
    compute: Callable[[Sequence[Array], Array], None], arrays: Sequence[Array], to: Array
) -> None:
    """Run `compute` with float32 copies of half-type arrays."""
    wide = [array.astype(WIDE[array.dtype]) if array.dtype in WIDE else array for array in arrays]
    if to.dtype not in WIDE:
        compute(wide, to)
        return
    result = np.empty(to.shape, WIDE[to.dtype])
    compute(wide, result)
    np.copyto(to, result, casting="unsafe")


def _is_as_wide(dtype: Any, other: Any) -> bool:
    return WIDE.get(dtype, dtype) is WIDE.get(other, other)


def _exponent_of(body: Body) -> int | None:
    """Return the index of the only input that occurs in the exponents of a body's powers. Return
    None if there is no such input, or if the body has no other input.
    """
    powers = [one for one in walk(body.tree) if isinstance(one, Call) and one.primitive == "pow"]
    names = {one.id for power in powers for one in walk(power.args[1]) if isinstance(one, Name)}
    return body.names.index(names.pop()) if len(names) == 1 < len(body.names) else None


def kernel_for(body: Body) -> PointwiseKernel:
    """Return the kernel of a body, the same object each time."""
    kernel: PointwiseKernel | None = body.readings.get("cpu")
    # setdefault is used, because two threads may be here at the same time, and both must return the
    # same kernel.
    return kernel or body.readings.setdefault("cpu", PointwiseKernel(body))
