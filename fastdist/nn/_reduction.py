"""Convert the `reduction` argument of losses between its names and its numbers."""

from __future__ import annotations

from ..core.caller_warning import warn_caller
from ..core.missing import explain_missing

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return 0 for "none", 1 for "mean", 2 for "sum".

    Raises  ValueError for any other string
    """
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """Return the reduction's name for the deprecated arguments `size_average` and `reduce`."""
    average = size_average is None or size_average
    word = "none" if reduce is not None and not reduce else "mean" if average else "sum"
    if emit_warning:
        warn_caller(
            "size_average and reduce args will be deprecated, please use "
            f"reduction='{word}' instead."
        )
    return word


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """Return the reduction's number for the deprecated arguments `size_average` and `reduce`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


explain_missing(__name__)
