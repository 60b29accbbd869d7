"""Tensors with units, written with `__torch_function__`, which every public function calls.

A unit is a dict of exponents, such as {"m": 1, "s": -2}. Products multiply the units, and sums
require equal units. All other functions require numbers without units, so most of the 600 functions
need no rule.
"""

from __future__ import annotations

from typing import Any

import fastdist as fd

Unit = dict[str, int]


class UnitError(TypeError):
    """Raised for an operation on units that do not match."""


class Units(fd.Tensor):
    """A tensor whose elements share one unit."""

    unit: Unit

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        name = func.__name__.strip("_")
        if isinstance(result, Units) and name not in KEEPING:
            result.unit = unit_of_result(name, args)
        elif isinstance(result, Units):
            result.unit = unit_of(args[0])
        return result

    def __repr__(self, **_: Any) -> str:
        return f"{self.tolist()} {shown(self.unit)}".rstrip()


def of(data: Any, **unit: int) -> Any:
    """Return data as a tensor with a unit: of([1.0, 2.0], m=1, s=-1)."""
    made = fd.as_tensor(data).as_subclass(Units)
    made.unit = unit
    return made


def unit_of(value: Any) -> Unit:
    if isinstance(value, list | tuple):
        return unit_of(value[0])
    return getattr(value, "unit", {})


def shown(unit: Unit) -> str:
    return " ".join(f"{name}^{n}" if n != 1 else name for name, n in sorted(unit.items()))


def combined(first: Unit, second: Unit, times: int = 1) -> Unit:
    powers = {n: first.get(n, 0) + times * second.get(n, 0) for n in {**first, **second}}
    return {name: power for name, power in powers.items() if power}


KEEPING = frozenset(
    """
    abs amax amin cat clone contiguous cumsum detach diff expand flip get getitem grad gather max
    mean median min narrow neg norm permute relu reshape roll select sort split squeeze stack std
    sum t to transpose unbind unsqueeze view where zeros_like
    """.split()  # noqa: SIM905
)
PRODUCTS = frozenset({"mul", "mul_", "matmul", "mm", "dot", "outer", "linear"})
QUOTIENTS = frozenset({"div", "div_", "true_divide", "truediv"})
SUMS = frozenset({"add", "add_", "sub", "sub_", "rsub", "maximum", "minimum", "copy_"})
TRUTHS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def unit_of_result(name: str, args: Any) -> Unit:
    """Return the unit of the result of the function `name` for `args`.

    Raises  UnitError if the operation has no meaning for these units
    """
    units = [unit_of(one) for one in args[:2]]
    if name in PRODUCTS:
        return combined(units[0], units[1])
    if name in QUOTIENTS:
        return combined(units[0], units[1], -1)
    if name == "rtruediv":
        return combined(units[1], units[0], -1)
    if name == "pow":
        return {key: n * args[1] for key, n in units[0].items()}
    if name == "sqrt" and all(n % 2 == 0 for n in units[0].values()):
        return {key: n // 2 for key, n in units[0].items()}
    if name == "square":
        return combined(units[0], units[0])
    if name in SUMS or name in TRUTHS:
        if units[0] != units[1]:
            raise UnitError(f"{name}: {shown(units[0])!r} and {shown(units[1])!r} are two units")
        return units[0] if name in SUMS else {}
    if any(units):
        raise UnitError(f"{name}: takes numbers without a unit, got {shown(units[0])!r}")
    return {}
