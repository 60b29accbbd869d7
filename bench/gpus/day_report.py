"""The report of one section of `gpu_day`: JSON lines, readable even if the section ends early."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.harness import Row, table

PASSED: Final = "passed"
FAILED: Final = "failed"
LATE: Final = "too late"
LEFT_OUT: Final = "left out"


class Report:
    """The results of a section: checks, rows of times, single figures, and omitted parts.

    Each entry is printed and written immediately, so that nothing is lost if the section is
    killed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self, name: str, passed: bool, found: str = "") -> None:
        """Add a check: its name, whether it passed, and details."""
        self._add("check", name=name, passed=bool(passed), found=found)
        print(f"  {'PASS' if passed else 'FAIL'}  {name}  {found}".rstrip(), flush=True)

    def figure(self, name: str, value: float, unit: str) -> None:
        """Add one number."""
        self._add("figure", name=name, value=value, unit=unit)
        print(f"  {name}: {value:.4g} {unit}", flush=True)

    def fact(self, name: str, value: Any) -> None:
        """Add a fact about the machine that figures depend on."""
        self._add("fact", name=name, value=value)

    def rows(self, rows: Iterable[Row]) -> None:
        """Add the rows of a table."""
        found = list(rows)
        for row in found:
            self._add("row", **asdict(row))
        if found:
            print("  " + table(found).replace("\n", "\n  "), flush=True)

    def leave_out(self, name: str, why: str) -> None:
        """Add an omitted part, and the reason."""
        self._add("left out", name=name, why=why)
        print(f"  left out: {name}: {why}", flush=True)

    def error(self, error: BaseException) -> None:
        """Add the error that ended the section early."""
        first = (str(error).splitlines() or [""])[0]
        text = f"{type(error).__name__}: {first}"
        self._add("error", text=text, traceback="".join(traceback.format_exception(error)))
        print(f"  ERROR {text}", flush=True)

    def _add(self, entry: str, **facts: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"entry": entry, **facts}) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a report; an incomplete last line is ignored."""
    entries = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            entries.append(json.loads(line))
        except ValueError:
            break
    return entries


def status_of(entries: Iterable[dict[str, Any]], *, is_late: bool) -> str:
    """Return the status of a section: passed, failed, late or left out."""
    kinds = set()
    for one in entries:
        if one["entry"] == "error" or (one["entry"] == "check" and not one["passed"]):
            return FAILED
        kinds.add(one["entry"])
    if is_late:
        return LATE
    return LEFT_OUT if not kinds - {"left out", "fact"} and "left out" in kinds else PASSED
