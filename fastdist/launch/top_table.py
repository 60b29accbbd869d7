"""Formats a reading of a job as plain text, or as tables of the package rich."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastdist.launch.job_reading import JobReading, Worker, stalls, waits
from fastdist.system.foreign_text import one_line

_UNITS = ("B", "KB", "MB", "GB", "TB")
_MOST_SENTENCES = 12

Row = list[str]


def headings() -> Row:
    """Return the headings of the table of workers."""
    return [
        *("RANK", "NAME", "PID", "UP", "MEMORY", "CALLS/S", "CALLS", "SERVED", "BYTES/S"),
        *("PASSES", "COLL/S", "COLLECTIVES", "COLL BYTES", "NOW"),
    ]


def rows(reading: JobReading, before: JobReading | None) -> list[Row]:
    """Return one row per worker; rates are computed from the previous reading."""
    former = {} if before is None else {one.get("pid"): one for one in before.workers}
    seconds = 0.0 if before is None else reading.at - before.at
    return [_row(worker, former.get(worker.get("pid")), seconds) for worker in reading.workers]


def _row(worker: Worker, before: Worker | None, seconds: float) -> Row:
    if "silent" in worker:
        return [str(worker["rank"]), *[""] * 12, one_line(worker["silent"])]
    rpc = worker["rpc"]
    is_rated = before is not None and "rpc" in before and seconds > 0

    def rate(count: Callable[[Worker], float], show: Callable[[float], str]) -> str:
        if not is_rated or before is None:
            return "-"
        return show(max(0.0, count(worker) - count(before)) / seconds)

    return [
        str(worker["rank"]),
        one_line(rpc.get("name", ""), 24),
        str(worker["pid"]),
        _duration(worker["up_s"]),
        size(worker["rss_bytes"]),
        rate(_calls, _number),
        str(rpc.get("calls", 0)),
        str(rpc.get("served", 0)),
        rate(_bytes, size),
        str(worker["passes"].get("running", 0)),
        rate(_collectives, _number),
        str(_collectives(worker)),
        size(sum(group["bytes"] for group in worker["groups"])),
        _now(worker),
    ]


def _calls(worker: Worker) -> float:
    return float(worker["rpc"].get("calls", 0) + worker["rpc"].get("served", 0))


def _bytes(worker: Worker) -> float:
    rpc = worker["rpc"]
    calls = rpc.get("sent_bytes", 0) + rpc.get("received_bytes", 0)
    return float(calls + sum(group["bytes"] for group in worker["groups"]))


def _collectives(worker: Worker) -> int:
    return int(sum(group["collectives"] for group in worker["groups"]))


def _now(worker: Worker) -> str:
    for group in worker["groups"]:
        if group["under_way"] is not None:
            now = group["under_way"]
            return one_line(f"{now['what']} {now['line']} {now['for_s']:.1f} s", 48)
    stage = worker["rpc"].get("stage", "")
    return "in shutdown()" if stage in ("coming", "going") else ""


def head(reading: JobReading, address: str) -> str:
    """Return the line above the table."""
    nodes, workers = len(reading.members.cards), sum(one.workers for one in reading.members.cards)
    memory = sum(worker.get("rss_bytes", 0) for worker in reading.workers)
    restart = f", restart {reading.members.round}" if reading.members.round else ""
    return (
        f"job at {address}: {nodes} {'node' if nodes == 1 else 'nodes'}, {workers} "
        f"{'worker' if workers == 1 else 'workers'}{restart}, memory {size(memory)}"
    )


def sentences(reading: JobReading) -> list[tuple[str, list[str]]]:
    """Return the waits and the stalls, as pairs of a heading and a list."""
    return [
        (name, _shortened([one_line(one) for one in found]))
        for name, found in (("WAITS", waits(reading)), ("STALLS", stalls(reading)))
        if found
    ]


def _shortened(found: list[str]) -> list[str]:
    more = len(found) - _MOST_SENTENCES
    return found if more <= 0 else [*found[:_MOST_SENTENCES], f"and {more} more"]


def as_text(reading: JobReading, before: JobReading | None, address: str) -> str:
    """Return a reading as plain text."""
    table = [headings(), *rows(reading, before)]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = [head(reading, address)]
    for row in table:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    for name, found in sentences(reading):
        lines += [name, *[f"  {one}" for one in found]]
    return "\n".join(lines) + "\n"


def as_tables(reading: JobReading, before: JobReading | None, address: str) -> Any:
    """Return a reading as an object that rich can show."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings():
        is_text = heading in ("NAME", "NOW")
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=not is_text)
    for row in rows(reading, before):
        table.add_row(*[Text(cell) for cell in row])
    parts: list[Any] = [Text(head(reading, address), style="bold"), table]
    for name, found in sentences(reading):
        style = "red" if name == "STALLS" else "yellow"
        parts += [Text(name, style=f"bold {style}"), *[Text(f"  {one}") for one in found]]
    return Group(*parts)


def size(count: float) -> str:
    """Return a number of bytes as text, such as "1.2 MB"."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000.0, unit + 1
    return f"{count:.0f} B" if unit == 0 else f"{count:.3g} {_UNITS[unit]}"


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts: Sequence[str] = (f"{hours}h", f"{minutes:02}m") if hours else (f"{minutes}m", f"{rest}s")
    return "".join(parts) if hours or minutes else f"{rest}s"
