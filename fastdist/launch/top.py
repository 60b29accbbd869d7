"""`fastdist top`: shows the workers of a running job, from the command line to the exit status."""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Sequence
from typing import NamedTuple

from fastdist.core.errors import FastdistError, StoreError
from fastdist.distributed.sockets import JobSecret
from fastdist.distributed.store import TCPStore
from fastdist.launch.job_address import RunningJob, running_jobs, split_address
from fastdist.launch.job_reading import JobReader, JobReading
from fastdist.launch.top_table import as_tables, as_text

HELP = """usage: fastdist top [HOST:PORT] [--once] [--interval S]

Show the workers of a running job: calls, passes, collectives, bytes and memory, which workers wait
for which others, and what makes no progress, by name.

HOST:PORT is where the job has its store: --master-addr and --master-port of `fastdist run`. Without
it the job of this user on this machine is shown. A job on other machines needs its secret
(FASTDIST_JOB_SECRET_FILE or FASTDIST_JOB_SECRET); without it nobody gets in.

  --once        show one reading as plain text and exit
  --interval S  seconds between two readings (default 2)

On a terminal the table is redrawn, if the package rich is installed. In a pipe, and without rich,
each reading is plain text below the one before. Ctrl-C ends.
"""
_USAGE_ERROR = 2
_CONNECT_S = 5.0
_RATE_S = 1.0


class _Options(NamedTuple):
    address: str | None
    once: bool
    interval_s: float


def main(arguments: Sequence[str]) -> int:
    """Show a job until it ends or the user presses Ctrl-C; return the exit status."""
    if arguments and arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    try:
        options = _parse(arguments)
        job = _choose(options.address)
    except ValueError as error:
        print(f"fastdist top: {error}", file=sys.stderr)
        return _USAGE_ERROR
    try:
        store = TCPStore(job.host, job.port, timeout=_CONNECT_S, secret=job.secret)
    except FastdistError as error:
        print(f"fastdist top: {error}", file=sys.stderr)
        return 1
    reader = JobReader(store, secrets.token_hex(4))
    try:
        return _show(reader, job.address, options)
    except StoreError as error:
        print(f"fastdist top: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        reader.close()


def _parse(arguments: Sequence[str]) -> _Options:
    address, once, interval_s = None, False, 2.0
    left = list(arguments)
    while left:
        word = left.pop(0)
        name, equals, value = word.partition("=")
        if word == "--once":
            once = True
        elif name == "--interval":
            interval_s = _interval(value if equals else left.pop(0) if left else "")
        elif word.startswith("-"):
            raise ValueError(f"unknown: {word}; known: HOST:PORT, --once, --interval S")
        elif address is not None:
            raise ValueError(f"takes one HOST:PORT, got {address} and {word}")
        else:
            address = word
    return _Options(address, once, interval_s)


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600.0:
        raise ValueError(f"--interval is {text!r}; expected seconds from 0.1 to 3600")
    return seconds


def _choose(address: str | None) -> RunningJob:
    jobs = running_jobs()
    if address is None:
        if not jobs:
            raise ValueError(
                "no job of this user runs on this machine: give HOST:PORT of its store, which "
                "are --master-addr and --master-port of `fastdist run`"
            )
        if len(jobs) > 1:
            shown = ", ".join(f"{job.address} (launcher {job.launcher})" for job in jobs)
            raise ValueError(f"several jobs of this user run here; choose one of {shown}")
        return jobs[0]._replace(secret=jobs[0].secret or _given_secret())
    host, port = split_address(address)
    known = next((job for job in jobs if (job.host, job.port) == (host, port)), None)
    secret = known.secret if known is not None else None
    return RunningJob(host, port, 0, secret or _given_secret())


def _given_secret() -> JobSecret | None:
    try:
        return JobSecret.from_environment(os.environ)
    except FastdistError as error:
        raise ValueError(str(error)) from error


def _show(reader: JobReader, address: str, options: _Options) -> int:
    if options.once:
        before = reader.read()
        threading.Event().wait(_RATE_S)
        _print(as_text(reader.read(), before, address))
        return 0
    if sys.stdout.isatty():
        try:
            return _redraw(reader, address, options)
        except ImportError:
            print("(for a table that is redrawn: pip install rich)", file=sys.stderr)
    last: JobReading | None = None
    while True:
        reading = reader.read()
        _print(as_text(reading, last, address) + "\n")
        last = reading
        threading.Event().wait(options.interval_s)


def _redraw(reader: JobReader, address: str, options: _Options) -> int:
    from rich.live import Live

    with Live(auto_refresh=False, screen=True) as live:
        last: JobReading | None = None
        while True:
            reading = reader.read()
            live.update(as_tables(reading, last, address), refresh=True)
            last = reading
            threading.Event().wait(options.interval_s)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
