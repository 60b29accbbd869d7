"""Functions on lists of tensors, which optimisers call: `_foreach_add` and related functions.

Lists of plain float32 or float64 tensors are computed in one launch: see foreach_launch.py.
Otherwise one op is called per tensor, so that dtypes may be mixed and autograd records as usual.
A function returns a tuple of new tensors. Its in-place twin, whose name ends with _, returns the
list that it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..core.folded_frames import folds
from ..dispatch.op import PLAIN
from ..tensor.tensor import Tensor
from .foreach_launch import UNARY, launch, launch_new, norms
from .load import LINALG

Tensors = Sequence[Tensor]


def _require_tensors(tensors: Tensors, *others: Any) -> None:
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for other in others:
        if len(other) != len(tensors):
            raise RuntimeError(
                "Tensor lists must have the same number of tensors, got "
                f"{len(tensors)} and {len(other)}"
            )


def _spread(tensors: Tensors, other: Any) -> Sequence[Any]:
    """Return an operand for each tensor: the items of a list, or one operand for all tensors."""
    if isinstance(other, Tensor):
        if other.dim():
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {other.dim()} dimensions and "
                f"{other.numel()} elements."
            )
        return [other] * len(tensors)
    if not isinstance(other, Sequence):
        return [other] * len(tensors)
    if len(other) != len(tensors):
        if other and isinstance(other[0], Tensor):
            _require_tensors(tensors, other)
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return other


def _call(name: str, first: Tensor, *others: Any, **kwargs: Any) -> Any:
    """Call a Tensor method by name; a method whose name ends with _ works in place."""
    return getattr(Tensor, name)(first, *others, **kwargs)


def _finish(name: str, tensors: Tensors, results: Sequence[Any]) -> Any:
    return tensors if name.endswith("_") else tuple(results)


def _unary(name: str) -> Callable[..., Any]:
    def apply(self: Tensors) -> Any:
        _require_tensors(self)
        found = _launched(name, [self])
        if found is not None:
            return found
        return _finish(name, self, [_call(name, one) for one in self])

    return apply


def _binary(name: str, *, has_alpha: bool = False) -> Callable[..., Any]:
    def apply(self: Any, other: Any = None, *, alpha: Any = 1, **names: Any) -> Any:
        for given in ("scalar", "scalars", "exponent", "tensor"):
            other = names.pop(given, other)
        if names:
            raise TypeError(f"_foreach_{name}() got unexpected arguments {sorted(names)}")
        if isinstance(self, int | float | complex):  # a number, raised to the power of each tensor
            _require_tensors(other)
            return tuple(_call("__rpow__", one, self) for one in other)
        _require_tensors(self)
        found = _together(name, self, other, alpha if has_alpha else 1)
        if found is not None:
            return found
        scaled = {"alpha": alpha} if has_alpha and alpha != 1 else {}
        rows = zip(self, _spread(self, other), strict=True)
        return _finish(name, self, [_bounded(name, one, value, scaled) for one, value in rows])

    return apply


def _launched(name: str, columns: Sequence[Tensors], numbers: Any = 1) -> Any:
    """Compute the op `name` for all tensors in one launch, in place if `name` ends with _. Return
    the results, or None if one launch cannot compute them. `numbers` may be one number for all
    tensors.
    """
    if not isinstance(numbers, Sequence):
        numbers = [numbers] * len(columns[0])
    if not name.endswith("_"):
        return launch_new(name, columns, numbers)
    return columns[0] if launch(name[:-1], columns, numbers) else None


def _together(name: str, tensors: Tensors, other: Any, alpha: Any) -> Any:
    """Compute a binary op in one launch, and return the results; None if no launch can do that."""
    plain, place = name.removesuffix("_"), "_" if name.endswith("_") else ""
    if other.__class__ in (float, int):
        if plain == "pow":
            return _launched(f"square{place}", [tensors]) if other == 2 else None
        other = [other] * len(tensors)
    if plain == "pow" or not isinstance(other, Sequence) or len(other) != len(tensors):
        return None
    if isinstance(other[0], Tensor):
        kind = _EXTREMES.get(plain, plain)
        return _launched(kind + place, [tensors, other], [alpha] * len(tensors))
    if alpha != 1:
        return None
    kind = {"maximum": "clamp_min", "minimum": "clamp_max"}.get(_EXTREMES.get(plain, ""), plain)
    return _launched(f"{kind}_number{place}", [tensors], other)


_EXTREMES: Final = {
    "clamp_max": "minimum", "clamp_min": "maximum", "maximum": "maximum", "minimum": "minimum",
}  # fmt: skip


def _bounded(name: str, one: Tensor, other: Any, scaled: dict[str, Any]) -> Any:
    """Return the result of a binary op. The ops in `_EXTREMES` also accept numbers."""
    plain = name.removesuffix("_")
    if plain not in _EXTREMES:
        return _call(name, one, other, **scaled)
    if not isinstance(other, Tensor):
        bound = "max" if _EXTREMES[plain] == "minimum" else "min"
        return _call("clamp_" if name.endswith("_") else "clamp", one, **{bound: other})
    result = _call(_EXTREMES[plain], one, other)
    return one.copy_(result) if name.endswith("_") else result


def _ternary(name: str) -> Callable[..., Any]:
    """Return addcdiv or addcmul for lists; op is / or *: self + value * (tensor1 op tensor2)."""

    def apply(
        self: Tensors, tensor1: Tensors, tensor2: Tensors, value: Any = 1, *, scalars: Any = None
    ) -> Any:
        _require_tensors(self, tensor1, tensor2)
        values = value if scalars is None else scalars
        if isinstance(values, Tensor) and values.dim():
            values = values.tolist()
        if isinstance(values, Sequence) and len(values) != len(self):
            raise RuntimeError(
                f"Expected length of scalars to match input of length {len(self)} but got "
                f"{len(values)} instead."
            )
        spread = _spread(self, values)
        found = _launched(name, [self, tensor1, tensor2], spread)
        if found is not None:
            return found
        rows = zip(self, tensor1, tensor2, spread, strict=True)
        results = [
            _call(name, a, b, c, value=v.item() if isinstance(v, Tensor) else v)
            for a, b, c, v in rows
        ]
        return _finish(name, self, results)

    return apply


def _lerp(name: str) -> Callable[..., Any]:
    def apply(self: Tensors, tensors1: Tensors, weight: Any = None, **names: Any) -> Any:
        weight = names.pop("weights", names.pop("scalars", weight))
        _require_tensors(self, tensors1)
        found = _lerp_together(name, self, tensors1, weight)
        if found is not None:
            return found
        rows = zip(self, tensors1, _spread(self, weight), strict=True)
        return _finish(name, self, [_call(name, a, b, w) for a, b, w in rows])

    return apply


def _lerp_together(name: str, tensors: Tensors, ends: Tensors, weight: Any) -> Any:
    """Compute lerp with one weight in one launch, and return the results; None if no launch can do
    that.
    """
    if weight.__class__ not in (float, int) or tensors[0].__class__ not in PLAIN:
        return None
    if not tensors[0]._layout.dtype.is_floating_point:
        return None
    of_dtype: Any = tensors[0]._layout.dtype.numpy.type
    number, kind = of_dtype(weight), "lerp_below_half"
    if not abs(number) < 0.5:
        number, kind = of_dtype(1) - number, "lerp_above_half"
    return _launched(kind + "_" * name.endswith("_"), [tensors, ends], float(number))


def _foreach_copy_(self: Tensors, src: Tensors, non_blocking: bool = False) -> Any:
    """Copy each tensor of src to the corresponding tensor of self; dtypes may differ."""
    _require_tensors(self, src)
    if launch("copy", [self, src], [1] * len(self)):
        return self
    for one, other in zip(self, src, strict=True):
        one.copy_(other)
    return self


def _foreach_zero_(self: Tensors) -> Any:
    """Set all elements of all tensors to 0."""
    _require_tensors(self)
    if launch("zero", [self], [0] * len(self)):
        return self
    for one in self:
        _call("zero_", one)
    return self


def _foreach_clone(self: Tensors, *, memory_format: Any = None) -> Any:
    """Return a copy of each tensor."""
    _require_tensors(self)
    if memory_format is None and (found := launch_new("clone", [self], [1] * len(self))):
        return found
    options = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(_call("clone", one, **options) for one in self)


def _foreach_norm(self: Tensors, ord: Any = 2, dtype: Any = None) -> Any:
    """Return the vector norm of each tensor."""
    _require_tensors(self)
    if dtype is None and (found := norms(self, ord)):
        return found
    return tuple(LINALG["vector_norm"](one, ord, dtype=dtype) for one in self)


def _foreach_powsum(self: Tensors, ord: Any = 2, dtype: Any = None) -> Any:
    """Return for each tensor the sum of abs(x) ** ord over its elements x."""
    _require_tensors(self)
    return tuple(one.abs().pow(ord).sum(dtype=dtype) for one in self)


def _foreach_max(self: Tensors) -> Any:
    """Return the maximum of each tensor.

    Raises  RuntimeError for a tensor without elements
    """
    _require_tensors(self)
    if not all(one.numel() for one in self):
        raise RuntimeError(
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements "
            "is undefined."
        )
    return tuple(_call("max", one) for one in self)


def _foreach_mm(self: Tensors, mat2: Tensors) -> Any:
    """Return the matrix product of each pair of matrices."""
    _require_tensors(self, mat2)
    return tuple(_call("mm", a, b) for a, b in zip(self, mat2, strict=True))


def _made() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    kinds: list[tuple[Callable[[str], Any], list[str]]] = [
        (_unary, UNARY),
        (_binary, ["mul", "div", "pow", *_EXTREMES]),
        (lambda name: _binary(name, has_alpha=True), ["add", "sub"]),
        (_ternary, ["addcdiv", "addcmul"]),
        (_lerp, ["lerp"]),
    ]
    for make, names in kinds:
        for plain in names:
            for name in (plain, f"{plain}_"):
                function = found[f"_foreach_{name}"] = make(name)
                function.__name__ = function.__qualname__ = f"_foreach_{name}"
                place = "in place" if name.endswith("_") else "as new tensors"
                function.__doc__ = f"Apply {plain} to each tensor of a list, {place}."
    return found


globals().update(_made())
FOREACH: Final = {name: folds(f) for name, f in globals().items() if name.startswith("_foreach_")}
globals().update(FOREACH)
