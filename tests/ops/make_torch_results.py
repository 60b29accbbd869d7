"""Write torch_results.json with PyTorch: `python -m tests.ops.make_torch_results torch`."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.ops.pointwise.pointwise_rows import INTEGER_ROWS, ROWS

PLACE = Path(__file__).with_name("torch_results.json")
ABOUT = "What PyTorch 2.13 gives on a CPU. Tests read it, none imports PyTorch."
# Points in float64 for values and gradients. Ops of several tensors get all combinations of points.
UNARY_AT = ["nan", "inf", "-inf", 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.0, -3.0, 6.0,
            25.0, -25.0, 120.0, -120.0]  # fmt: skip
BINARY_AT = ["nan", "inf", "-inf", 0.0, -0.0, 1.0, -2.0, 2.5]
TERNARY_AT = ["nan", "inf", "-inf", 0.0, 1.0, -2.0]
AT = (UNARY_AT, BINARY_AT, TERNARY_AT)
# Points for ops that raise an error in PyTorch at other points.
BOUNDED_AT = {"binary_entropy": [0.0, -0.0, 0.25, 0.5, 1.0]}
INTEGER_VALUES: dict[str, list[Any]] = {
    "uint8": [0, 1, 2, 7, 200],
    "int8": [-128, -7, -1, 0, 1, 2, 7, 127],
    "int64": [-9, -7, -1, 0, 1, 2, 7, 9],
    "bool": [False, True],
}
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
NUMBERS = {"int": 1, "float": 1.5}
# Ops whose name in PyTorch is not the public name of their row, and ops that PyTorch does not have.
OTHER_NAMES = {"prelu_kernel": "_prelu_kernel"}
NOT_IN_PYTORCH = (
    *("gamma_of", "log_gamma_of", "gamma_slope", "valued", "logistic"),
    *("distance_root", "root_slope", "root_tangent"),
    *("norm_slope", "norm_tangent", "product_at_zero", "rough_zero"),
    *("gelu_exact_tails", "gelu_tanh_tails"),
)
# Errors that PyTorch raises for unsupported operands; any other error is a bug of this file. Losses
# read the sizes of their inputs, which a Python number does not have.
REFUSALS = (RuntimeError, TypeError, ValueError, AttributeError)


def call_of(torch: Any, name: str) -> Callable[..., Any]:
    """Return PyTorch's function for a row, called with the numbers of the row."""
    row = ROWS.get(name)
    if row is None:
        return getattr(torch, name)  # type: ignore[no-any-return]
    if name == "polygamma":
        return lambda x: torch.polygamma(row.numbers["n"], x)
    known = OTHER_NAMES.get(name, row.public)
    homes = (torch.nn.functional,) if row.functional else (torch, torch.special)
    for home in homes:
        if hasattr(home, known):
            call = getattr(home, known)
            return lambda *tensors: call(*tensors, **row.numbers)
    raise LookupError(f"PyTorch has no {known}")


def count_of(name: str) -> int:
    """Return how many tensors an op takes."""
    return len(ROWS[name].domains) if name in ROWS else 2 - (name == "bitwise_not")


def grid(*axes: list[Any]) -> list[list[Any]]:
    """Return all combinations of points, as one list per axis; the last axis changes fastest."""
    return [list(column) for column in zip(*itertools.product(*axes), strict=True)]


def listed(tensor: Any) -> list[Any]:
    """Return the elements of a tensor; elements that JSON cannot represent become strings."""
    return [
        str(one) if isinstance(one, float) and not math.isfinite(one) else one
        for one in tensor.detach().reshape(-1).tolist()
    ]


def special(torch: Any, name: str) -> dict[str, Any]:
    """Return the values at the special points, and the gradients of the operands there."""
    count = count_of(name)
    leaves = [
        torch.tensor([float(one) for one in axis], dtype=torch.float64, requires_grad=True)
        for axis in grid(*[BOUNDED_AT.get(name, AT[count - 1])] * count)
    ]
    found = call_of(torch, name)(*leaves)
    made: dict[str, Any] = {"value": listed(found)}
    if found.requires_grad:
        try:
            found.sum().backward()
        except RuntimeError:  # "derivative for aten::floor_divide is not implemented"
            return made
        made["gradients"] = [None if one.grad is None else listed(one.grad) for one in leaves]
    return made


def dtype_table(torch: Any, name: str) -> dict[str, str | None]:
    """Return the result dtype for each pair of operands; "()" marks a last operand without axes."""
    call = call_of(torch, name)

    def ones(dtype: str, *shape: int) -> Any:
        return torch.ones(shape, dtype=getattr(torch, dtype))

    def found(*operands: Any) -> str | None:
        try:
            return str(call(*operands).dtype).rpartition(".")[2]
        except REFUSALS:
            return None

    table = {}
    for first in DTYPES:
        if count_of(name) == 1:
            table[first] = found(ones(first, 3))
            table[f"{first} ()"] = found(ones(first))
            continue
        for second in DTYPES:
            table[f"{first} {second}"] = found(ones(first, 3), ones(second, 3))
            table[f"{first} {second} ()"] = found(ones(first, 3), ones(second))
        for word, number in NUMBERS.items():
            table[f"{first} {word}"] = found(ones(first, 3), number)
    return table


def integers(torch: Any, name: str) -> dict[str, Any]:
    """Return the dtype and the values of the result for each integer dtype that the op supports."""
    made = {}
    for dtype, values in INTEGER_VALUES.items():
        # Omit divisions by 0, and shifts by at least the number of bits.
        seconds = values if dtype == "bool" else [one for one in values if one]
        if "shift" in name:
            seconds = [0, 1, 3]
        columns = grid(*[values, seconds, seconds][: count_of(name)])
        try:
            found = call_of(torch, name)(
                *[torch.tensor(column, dtype=getattr(torch, dtype)) for column in columns]
            )
        except REFUSALS:
            continue
        made[dtype] = [str(found.dtype).rpartition(".")[2], listed(found)]
    return made


def results(torch: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the contents of the file: PyTorch's results by op, in the order of the names."""
    everything = [*names, *sorted(INTEGER_ROWS)]
    tables: list[Any] = []
    numbers = {}
    for name in everything:
        if count_of(name) > 2:
            continue
        table = dtype_table(torch, name)
        if table not in tables:
            tables.append(table)
        numbers[name] = tables.index(table)
    return {
        "about": ABOUT,
        "unary_at": UNARY_AT,
        "binary_at": BINARY_AT,
        "ternary_at": TERNARY_AT,
        "bounded_at": BOUNDED_AT,
        "special": {name: special(torch, name) for name in names},
        "dtypes": numbers,
        "integers": {name: integers(torch, name) for name in everything},
        "integer_values": INTEGER_VALUES,
        "dtype_tables": tables,
    }


def text_of(found: dict[str, Any]) -> str:
    """Return the file as text, one op per line."""

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    def lines(value: Any) -> str:
        if not isinstance(value, dict) or not isinstance(next(iter(value.values())), dict):
            return compact(value)  # has no line for each op
        return "{" + ",\n".join(f"{compact(k)}:{compact(v)}" for k, v in value.items()) + "}"

    return "{" + ",\n".join(f"{compact(k)}:{lines(v)}" for k, v in found.items()) + "}\n"


def main() -> None:
    """Write the file with the library named on the command line; tests never import PyTorch."""
    warnings.simplefilter("ignore")  # for broadcast sizes and prelu weights of 0 axes
    names = [name for name in ROWS if name not in NOT_IN_PYTORCH]
    PLACE.write_text(text_of(results(importlib.import_module(sys.argv[1]), names)))


if __name__ == "__main__":
    main()
