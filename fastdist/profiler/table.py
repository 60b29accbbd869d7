"""Prints events or averages as a table, with one row for each."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from fastdist.system.foreign_text import one_line

from ..core.short_repr import short_repr
from ..instrumentation import notebook
from .activities import DeviceType
from .formatted import duration, memory

_Column: TypeAlias = tuple[str, Callable[[Any], str]]

_SORTED_BY: Final = frozenset(
    {
        "count", "cpu_memory_usage", "cpu_time", "cpu_time_total", "device_memory_usage",
        "device_time", "device_time_total", "flops", "self_cpu_memory_usage",
        "self_cpu_time_total", "self_device_memory_usage", "self_device_time_total",
    }
)  # fmt: skip
_DEVICES: Final = re.compile("cuda|xpu|privateuse1")
_UNITS: Final = (None, "s", "ms", "us")
_FLOP_UNITS: Final = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


class Form(NamedTuple):
    """The options of a table; widths are in characters."""

    sort_by: str | None = None
    row_limit: int = 100
    max_src_column_width: int | None = 75
    max_name_column_width: int | None = 55
    max_shapes_column_width: int | None = 80
    header: str | None = None
    top_level_events_only: bool = False
    time_unit: str | None = None

    def rows_of(self, entries: Sequence[Any]) -> list[Any]:
        """Return the entries that the table shows, in the order of its rows.

        Raises  ValueError if sort_by is unknown; TypeError if an option has the wrong type
        """
        rows = list(entries)
        if self.sort_by is not None:
            if not isinstance(self.sort_by, str):
                raise TypeError(
                    f"table: sort_by is {short_repr(self.sort_by)}, expected the name of a column"
                )
            wanted = _DEVICES.sub("device", self.sort_by)
            if wanted not in _SORTED_BY:
                near = difflib.get_close_matches(self.sort_by, _SORTED_BY, 1, 0.6)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                known = f"expected one of {sorted(_SORTED_BY)}{meant}"
                raise ValueError(f"table: sort_by is {short_repr(self.sort_by)}, {known}")
        if not isinstance(self.row_limit, int):
            raise TypeError(
                f"table: row_limit is {short_repr(self.row_limit)}, expected how many rows, -1 "
                "for all"
            )
        if self.sort_by is not None:
            rows.sort(key=lambda row: -float(getattr(row, wanted)))
        if self.top_level_events_only:
            rows = [row for row in rows if row.cpu_parent is None]
        return rows if self.row_limit < 0 else rows[: self.row_limit]

    def duration(self, us: float) -> str:
        """Return a time as text, in the unit of the table."""
        return duration(us, self.time_unit)


def table_of(entries: Sequence[Any], total: float, form: Form) -> str:
    """Return the table as text, without columns that are empty in all rows.

    Raises  ValueError for an unknown column or unit
    """
    columns, cells, totals = _parts_of(entries, total, form)
    return "\n".join([*_drawn(columns, cells, form), *totals, ""])


def html_of(entries: Sequence[Any], total: float, form: Form) -> str:
    """Return the table as HTML, for a notebook."""
    columns, cells, totals = _parts_of(entries, total, form)
    return notebook.table(columns, cells, "; ".join(totals))


def _parts_of(
    entries: Sequence[Any], total: float, form: Form
) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the column titles, the rows, and the lines below the table."""
    if form.time_unit not in _UNITS:
        raise ValueError(f"table: time_unit is {short_repr(form.time_unit)}, one of {_UNITS}")
    rows = form.rows_of(entries)
    kernels = [row for row in entries if row.device_type is not DeviceType.CPU]
    device_total = float(sum(row.self_device_time_total for row in kernels))
    device = next((row.use_device.upper() for row in entries if row.use_device), "Device")
    cells = [_times_of(row, total, form) for row in rows]
    columns = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    more = _device_columns(rows, device, device_total, form) + _more_columns(rows, device, form)
    for column, told in more:
        words = [told(row) for row in rows]
        if any(words) or column == "# of Calls":
            columns.append(column)
            cells = [[*cell, word] for cell, word in zip(cells, words, strict=True)]
    if any(row.stack for row in rows):
        columns.append("Source Location")
        cells = [
            line for cell, row in zip(cells, rows, strict=True) for line in _down(cell, row, form)
        ]
    totals = [f"Self CPU time total: {form.duration(total)}"]
    totals += [f"Self {device} time total: {form.duration(device_total)}"] if kernels else []
    return columns, cells, totals


def _drawn(columns: list[str], cells: list[list[str]], form: Form) -> list[str]:
    """Return the lines of the table as text, with its header."""
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [columns, *cells]
    ]
    head = [] if form.header is None else ["=" * len(rule), form.header]
    if form.top_level_events_only:
        head += ["=" * len(rule), "This report only display top-level ops statistics"]
    return [*head, rule, lines[0], rule, *lines[1:], rule]


def _down(cell: list[str], row: Any, form: Form) -> list[list[str]]:
    """Return the lines of a row: one for each function of its stack, and then an empty line."""
    places = [_end_of(entry, form.max_src_column_width) for entry in row.stack] or [""]
    return [
        [*(cell if n == 0 else [""] * len(cell)), place] for n, place in enumerate([*places, ""])
    ]


def _end_of(text: str, width: int | None) -> str:
    text = one_line(text)  # the text may come from a user or another worker
    return text if width is None or len(text) <= width else f"...{text[3 - width :]}"


def _both_ends_of(text: str, width: int | None) -> str:
    text = one_line(text)
    if width is None or len(text) <= width:
        return text
    left = (width - 3) // 2
    return f"{text[:left]}...{text[len(text) - (width - 3 - left) :]}"


def _times_of(row: Any, total: float, form: Form) -> list[str]:
    whole = total or 1.0
    return [
        _both_ends_of(row.key, form.max_name_column_width),
        f"{100 * row.self_cpu_time_total / whole:.2f}%",
        form.duration(row.self_cpu_time_total),
        # The time of an asynchronous event is not spent in a thread, so the percentage is 0.
        f"{0 if row.is_async else 100 * row.cpu_time_total / whole:.2f}%",
        form.duration(row.cpu_time_total),
        form.duration(row.cpu_time),
    ]


def _device_columns(rows: Sequence[Any], device: str, total: float, form: Form) -> list[_Column]:
    if not any(row.device_time_total for row in rows):
        return []
    whole = total or 1.0
    return [
        (f"Self {device}", lambda row: form.duration(row.self_device_time_total)),
        (f"Self {device} %", lambda row: f"{100 * row.self_device_time_total / whole:.2f}%"),
        (f"{device} total", lambda row: form.duration(row.device_time_total)),
        (f"{device} time avg", lambda row: form.duration(row.device_time)),
    ]


def _more_columns(rows: Sequence[Any], device: str, form: Form) -> list[_Column]:
    columns: list[_Column] = []
    if any(row.cpu_memory_usage or row.self_cpu_memory_usage for row in rows):
        columns.append(("CPU Mem", lambda row: memory(row.cpu_memory_usage)))
        columns.append(("Self CPU Mem", lambda row: memory(row.self_cpu_memory_usage)))
    if any(row.device_memory_usage or row.self_device_memory_usage for row in rows):
        columns.append((f"{device} Mem", lambda row: memory(row.device_memory_usage)))
        columns.append((f"Self {device} Mem", lambda row: memory(row.self_device_memory_usage)))
    columns.append(("# of Calls", lambda row: str(row.count)))
    width = form.max_shapes_column_width
    columns += [
        ("Node ID", _node_of),
        ("Module", _module_of),
        ("Input Shapes", lambda row: _shapes_of(row)[:width]),
    ]
    known = [row.flops for row in rows if row.flops]
    if known:
        # The unit is chosen for the smallest value, so that all values are at least 1.
        power = min(int(math.log10(min(known)) / 3), len(_FLOP_UNITS) - 1)
        columns.append((f"Total {_FLOP_UNITS[power]}", lambda row: _flops_of(row, 1000**power)))
    return columns


def _node_of(row: Any) -> str:
    return str(row.node_id) if row.node_id >= 0 else ""


def _module_of(row: Any) -> str:
    return str(row.module_hierarchy)


def _shapes_of(row: Any) -> str:
    return str(row.input_shapes) if row.input_shapes else ""


def _flops_of(row: Any, unit: int) -> str:
    return f"{row.flops / unit:8.3f}" if row.flops else "--"
