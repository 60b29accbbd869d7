"""PyTorch's queries on symbolic sizes: sizes are always numbers here."""

from __future__ import annotations

from typing import Any

from ...core.missing import NO_GRAPHS, explain_missing
from ...core.refusing import refusing_class

__all__ = [
    "DimDynamic", "GuardOnDataDependentSymNode", "ShapeEnv", "free_symbols",
    "free_unbacked_symbols", "guard_bool", "guard_int", "guard_or_false", "guard_or_true",
    "guard_size_oblivious", "has_free_symbols", "has_free_unbacked_symbols", "hint_int",
    "is_symbolic", "statically_known_false", "statically_known_true", "sym_eq",
]  # fmt: skip

ShapeEnv = refusing_class(__name__, "ShapeEnv", NO_GRAPHS)
DimDynamic = refusing_class(__name__, "DimDynamic", NO_GRAPHS)


class GuardOnDataDependentSymNode(RuntimeError):
    """PyTorch's error for a branch on a size that depends on data; never raised here."""


def guard_bool(a: Any) -> bool:
    """Return the condition as a bool."""
    return bool(a)


guard_or_false = guard_or_true = guard_size_oblivious = statically_known_true = guard_bool


def statically_known_false(x: Any) -> bool:
    """Return whether the condition is False."""
    return not x


def guard_int(a: Any) -> int:
    """Return the size as an int."""
    return int(a)


def hint_int(a: Any, fallback: int | None = None) -> int:
    """Return the size as an int."""
    return int(a)


def sym_eq(x: Any, y: Any) -> bool:
    """Return whether two sizes, or sequences of sizes, are equal."""
    return bool(x == y)


def is_symbolic(val: Any) -> bool:
    """Return False: every size is a number."""
    return False


has_free_symbols = has_free_unbacked_symbols = is_symbolic


def free_symbols(val: Any) -> set[Any]:
    """Return an empty set: every size is a number."""
    return set()


free_unbacked_symbols = free_symbols

explain_missing(__name__)
