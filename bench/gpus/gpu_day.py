"""All checks that need a real GPU, in order, in at most 12 minutes.

The newest parts come first, then small ops, captured steps of models against torch's, passes CPU ->
GPU -> CPU over two processes, NCCL, and in the remaining time every op against the CPU. Each
section has its own process and its own time limit. So a section that fails, hangs or breaks its
CUDA context does not stop the next one. After each section the results are written into
bench/results, as JSON and as text. `--device fibres` runs everything with small sizes on the tests'
simulated GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import kept
from bench.gpus import day_sections
from bench.gpus.day_report import FAILED, LATE, LEFT_OUT, PASSED, Report, read, status_of
from bench.gpus.day_sections import Day, Work
from bench.harness import Failed, Row
from bench.harness import machine as facts_of_cpu

MINUTES: Final = 11.5
_LOOK_S: Final = 0.02


class Section(NamedTuple):
    """A section, and its time limit in seconds."""

    work: Work
    limit_s: float


SECTIONS: Final[Mapping[str, Section]] = {
    "machine": Section(day_sections.machine_facts, 45),
    "new: TF32, graphs": Section(day_sections.new_numbers, 60),
    "new: tests": Section(day_sections.new_tests, 120),
    "small ops": Section(day_sections.small_ops, 60),
    **{
        f"captured: {name.partition(',')[0]}": Section(day_sections.model_section(name), 70)
        for name in day_sections.MODELS
    },
    "CPU -> GPU -> CPU": Section(day_sections.continuations, 70),
    "NCCL": Section(day_sections.nccl, 80),
    # This section takes the remaining time, and checks the time itself.
    "every op": Section(day_sections.every_op, 240),
}


def run(rounds: int, device: str = "cuda") -> list[Row]:
    """Run the sections, write their results, and print a summary.

    Raises  Failed that names the sections that failed or exceeded their time
    """
    if device not in ("cuda", "fibres"):
        raise ValueError(f"gpu_day runs on the devices cuda and fibres, not on {device!r}")
    is_real = device == "cuda"
    folder = kept.RESULTS if is_real else Path(tempfile.mkdtemp(prefix="fastdist-gpu-day-"))
    try:
        results = day(Day(rounds, is_real), folder)
    finally:
        if not is_real:
            shutil.rmtree(folder)
    wrong = [f"{one['section']} ({one['status']})" for one in results
             if one["status"] in (FAILED, LATE)]  # fmt: skip
    if wrong:
        raise Failed(f"sections that are not as they should be: {', '.join(wrong)}", [])
    return []


def day(
    options: Day,
    folder: Path,
    sections: Mapping[str, Section] = SECTIONS,
    minutes: float = MINUTES,
) -> list[dict[str, Any]]:
    """Run sections one after the other, and return their results.

    The results so far are written into the folder after each section.
    """
    end_s = time.monotonic() + minutes * 60
    facts, results = {"machine": facts_of_cpu(), **kept.when_and_what()}, list[dict[str, Any]]()
    # A private folder, into which child processes write their results.
    with tempfile.TemporaryDirectory() as reports:
        for number, (name, section) in enumerate(sections.items()):
            left_s = end_s - time.monotonic()
            path = Path(reports) / f"{number}.jsonl"
            print(f"\n{name}", flush=True)
            if left_s <= 1:
                Report(path).leave_out(name, f"{minutes:g} minutes are over")
                seconds, is_late = 0.0, False
            else:
                limit_s = min(section.limit_s, left_s)
                seconds, is_late = _in_a_process(section.work, options, path, limit_s)
            results.append(_result(name, read(path), seconds, is_late=is_late))
            if results[-1]["status"] == LATE:
                print(f"  TOO LATE: ended after {seconds:.0f} s", flush=True)
            write(folder, facts, results)
            if name == "machine" and results[-1]["status"] == LEFT_OUT:
                break  # without a GPU there is nothing to run
    print("\n" + summary(results), flush=True)
    if options.is_real and _gpu_of(results):
        print(f"kept in {folder / _stem(facts, results)}.json", flush=True)
    return results


def summary(results: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each section: its status, its time, and what failed."""
    lines = []
    for one in results:
        wrong = [entry["name"] for entry in one["checks"] if not entry["passed"]]
        wrong += [f"left out: {entry['name']}" for entry in one["left_out"]]
        wrong += one["errors"]
        took = f"{one['seconds']:6.1f} s"
        lines.append(f"{one['status']:9} {took}  {one['section']}  {'; '.join(wrong)}".rstrip())
    counts = [f"{sum(one['status'] == status for one in results)} {status}"
              for status in (PASSED, FAILED, LATE, LEFT_OUT)]  # fmt: skip
    return "\n".join([*lines, ", ".join(counts)])


def write(folder: Path, facts: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> None:
    """Write the results so far as JSON and text, if there is a GPU."""
    if not _gpu_of(results):
        return
    folder.mkdir(exist_ok=True)
    place = folder / _stem(facts, results)
    figures = {**facts, "gpu": _gpu_of(results), "sections": results}
    place.with_name(f"{place.name}.json").write_text(json.dumps(figures, indent=2) + "\n")
    place.with_name(f"{place.name}.txt").write_text(summary(results) + "\n")


def _stem(facts: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> str:
    words = f"{facts['date']} {_gpu_of(results)} gpu day".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def _gpu_of(results: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the GPU's name, or None if there is none."""
    found = [one["facts"]["gpu"] for one in results if "gpu" in one["facts"]]
    return found[0] if found else None


def _result(
    name: str, entries: list[dict[str, Any]], seconds: float, *, is_late: bool
) -> dict[str, Any]:
    def of(kind: str) -> list[dict[str, Any]]:
        return [
            {key: value for key, value in one.items() if key != "entry"}
            for one in entries
            if one["entry"] == kind
        ]

    return {
        "section": name,
        "status": status_of(entries, is_late=is_late),
        "seconds": round(seconds, 2),
        "facts": {one["name"]: one["value"] for one in of("fact")},
        "checks": of("check"),
        "figures": of("figure"),
        "rows": of("row"),
        "left_out": of("left out"),
        "errors": [one["text"] for one in of("error")],
    }


def _in_a_process(
    work: Callable[[Report, Day], None], options: Day, path: Path, limit_s: float
) -> tuple[float, bool]:
    """Run a section in a forked process; return its seconds, and whether it exceeded its limit.

    This process must not have used the GPU, because CUDA does not survive a fork.
    """
    start_s = time.monotonic()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()  # so that the section's child processes are killed with the section
        _run_and_end(work, options._replace(until_s=start_s + 0.9 * limit_s), path)
    is_late, pause = False, threading.Event()
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() - start_s > limit_s:
            is_late = True
            break
        pause.wait(_LOOK_S)
    # Child processes that the section has left behind are killed as well.
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)  # the child has not reached setsid
    _, code = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(code)
    if ended < 0 and not is_late:
        Report(path).error(RuntimeError(f"the process ended by {signal.Signals(-ended).name}"))
    return time.monotonic() - start_s, is_late


def _run_and_end(work: Callable[[Report, Day], None], options: Day, path: Path) -> None:
    report = Report(path)
    try:
        if not options.is_real:
            from tests.fibre_shim.installed import be_on_fibres

            be_on_fibres()
        work(report, options)
    except BaseException as error:
        report.error(error)
    finally:
        sys.stdout.flush()
        # os._exit skips the cleanup, which belongs to the parent.
        os._exit(0)
