"""Read the values of the time table, and find the times in the code."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.distributed.time_table import TIMES

_PACKAGE = Path(__file__).resolve().parents[2] / "fastdist"
_ROOMS = ("distributed", "launch", "concurrency", "integrations")
_TIME = re.compile(r"_?[A-Za-z]\w*(?<!_PER)_(S|MS|NS|s|ms|ns)$")
_UNITS = {"s": 1.0, "ms": 1e-3, "ns": 1e-9}


def seconds(name: str) -> float:
    """Return the value of a time by its full name."""
    module = next(each for each in TIMES if name.startswith(each + "."))
    owner: Any = importlib.import_module("fastdist." + module)
    *scope, last = name.removeprefix(module + ".").split(".")
    for part in scope:
        owner = getattr(owner, part)
    if scope and dataclasses.is_dataclass(owner):
        value = next(field.default for field in dataclasses.fields(owner) if field.name == last)
    elif scope and hasattr(owner, "_field_defaults"):
        value = owner._field_defaults[last]
    else:
        value = getattr(owner, last)
    assert isinstance(value, int | float), f"{name} is {value!r}"
    return float(value) * _UNITS[last.rpartition("_")[2].lower()]


def in_the_code() -> Iterator[str]:
    """Yield the full name of each constant or class default that is a time."""
    for room in _ROOMS:
        for path in sorted((_PACKAGE / room).rglob("*.py")):
            module = ".".join(path.relative_to(_PACKAGE).with_suffix("").parts)
            for name in _times_of(ast.parse(path.read_text()).body):
                yield f"{module.removesuffix('.__init__')}.{name}"


def _times_of(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{name}" for name in _times_of(node.body))
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _is_number(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and _TIME.match(target.id):
                    yield target.id


def _is_number(value: ast.expr | None) -> bool:
    return value is not None and not (
        isinstance(value, ast.Constant) and not isinstance(value.value, int | float)
    )


def in_the_table() -> set[str]:
    """Return the full names in the table."""
    return {f"{module}.{name}" for module, names in TIMES.items() for name in names}


if __name__ == "__main__":
    told = {
        f"{module}.{name}": what for module, rows in TIMES.items() for name, what in rows.items()
    }
    values: dict[str, float] = {}
    for full_name in told:
        with suppress(ImportError):  # the package of an engine is not installed
            values[full_name] = seconds(full_name)
    for full_name in sorted(values, key=values.__getitem__):
        sys.stdout.write(f"{values[full_name]:>12g} s  {full_name:<62} {told[full_name]}\n")
