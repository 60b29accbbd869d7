"""`fastdist run`: checks, meets the other nodes, runs the workers, reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from selectors import EVENT_READ, PollSelector

from fastdist.as_torch import environment as as_torch
from fastdist.core.errors import FastdistError
from fastdist.distributed.sockets import JobSecret
from fastdist.launch.environment import INIT_TIMEOUT, Place, worker_environment
from fastdist.launch.guard import Guard
from fastdist.launch.job import Job
from fastdist.launch.job_folder import VARIABLE as FOLDER_VARIABLE
from fastdist.launch.job_folder import JobFolder
from fastdist.launch.nodes import Meeting
from fastdist.launch.options import LaunchOptions, parse_options, usable_cores
from fastdist.launch.report import Failure, write_report
from fastdist.launch.screen import Screen
from fastdist.launch.secret import find_secret, secret_variables
from fastdist.launch.signals import SignalPipe
from fastdist.launch.worker_process import WorkerProcess

_USAGE_ERROR = 2
# After a Ctrl-C the other nodes are told, but not waited for.
_HURRIED_GOODBYE_S = 0.7


def main(arguments: Sequence[str] | None = None, prog: str = "fastdist run") -> int:
    """Start a job as the command line says; return the exit status of its first failure, or 0."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments, prog)
    try:
        return launch(options, find_secret(options.nodes, os.environ), prog)
    except FastdistError as error:
        # Nothing has started: a secret that is missing or cannot be read, a port that is taken, no
        # place for the job's files, no process left for its watcher.
        print(f"{prog}: {error}", file=sys.stderr)
        return _USAGE_ERROR


def launch(options: LaunchOptions, secret: JobSecret | None, prog: str = "fastdist run") -> int:
    """Run this node's part of the job.

    Thread  main thread only: it takes the signals
    """
    _open_standard_files()
    with ExitStack() as stack:
        signals = stack.enter_context(SignalPipe())
        meeting = Meeting(options, secret)
        stack.callback(meeting.close)
        folder = JobFolder()
        stack.callback(folder.remove)
        guard = _start_guard(folder)
        stack.callback(guard.close)
        selector = stack.enter_context(PollSelector())
        screen = Screen(selector)
        where = f" on node {options.node_rank}" if options.nodes > 1 else ""
        job = Job(screen, selector, signals, guard, where, meeting.tell_ended)
        selector.register(meeting.fileno(), EVENT_READ, partial(_take_news, job, meeting, screen))
        job.turn_until(lambda: meeting.place is not None or job.failure is not None)
        if meeting.place is not None and job.failure is None:
            variables = secret_variables(secret, folder, os.environ)
            shared = {FOLDER_VARIABLE: folder.path, **variables}
            if options.workers_wait is not None:
                shared[INIT_TIMEOUT] = options.workers_wait
            if options.as_torch:
                shared |= as_torch(os.environ)
            job.run(_commands(options, meeting.place, shared, screen.width))
        meeting.tell_end(job.failure)
        was_asked = job.failure is not None and job.failure.was_asked
        job.turn_until(lambda: meeting.is_over, _HURRIED_GOODBYE_S if was_asked else None)
        job.settle()
        write_report(screen, prog, job.failure, job.also_failed)
        job.finish()
        return 0 if job.failure is None else job.failure.exit_status


def _start_guard(folder: JobFolder) -> Guard:
    try:
        return Guard(folder.path)
    except OSError as error:
        raise FastdistError(f"the job's watcher could not be started: {error}") from error


def _open_standard_files() -> None:
    """Let nothing that is opened from now on take the place of stdin, stdout or stderr.

    Whoever starts a command may have closed them; a worker's pipe would then be our stdout.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def _take_news(job: Job, meeting: Meeting, screen: Screen) -> None:
    for news in meeting.take():
        if isinstance(news, Failure):
            job.stop_because(news)
        else:
            screen.print(news.encode(), to_stderr=True)


def _commands(
    options: LaunchOptions, place: Place, shared: Mapping[str, str], width: int | None
) -> Mapping[int, Callable[[], WorkerProcess]]:
    program = ["-m", options.program] if options.is_module else [options.program]
    command = [sys.executable, *program, *options.arguments]
    threads = max(1, usable_cores() // options.workers_per_node)
    starts = {}
    for local_rank in range(options.workers_per_node):
        environment = worker_environment(
            os.environ, place, local_rank, threads=threads, terminal_width=width, job=shared
        )
        rank = place.first_rank + local_rank
        starts[rank] = partial(WorkerProcess, rank, command, environment)
    return starts
