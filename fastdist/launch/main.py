"""`fastdist run`: checks the command line, meets other nodes, runs the workers, and reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from selectors import PollSelector

from fastdist.as_torch import environment as as_torch
from fastdist.core.errors import FastdistError
from fastdist.distributed.sockets import JobSecret
from fastdist.launch.environment import (
    ALLOW_RESTART,
    INIT_TIMEOUT,
    MAX_RESTARTS,
    RUN_ID,
    SHUTDOWN_TIMEOUT,
    Place,
    worker_environment,
)
from fastdist.launch.guard import Guard
from fastdist.launch.job import Comebacks, Endings, Job, Start
from fastdist.launch.job_folder import MONITOR_VARIABLE, JobFolder
from fastdist.launch.job_folder import VARIABLE as FOLDER_VARIABLE
from fastdist.launch.log_files import LogFolder
from fastdist.launch.nodes import Meeting
from fastdist.launch.options import LaunchOptions, parse_options, usable_cores
from fastdist.launch.report import Failure, write_report
from fastdist.launch.rounds import Rounds
from fastdist.launch.screen import Screen
from fastdist.launch.secret import find_secret, secret_variables
from fastdist.launch.signals import SignalPipe
from fastdist.launch.worker_process import WorkerProcess

_USAGE_ERROR = 2


def main(
    arguments: Sequence[str] | None = None,
    prog: str = "fastdist run",
    *,
    passes_local_rank: bool = False,
) -> int:
    """Start a job from a command line; return the exit status of its first failure, or 0.

    If `passes_local_rank` is true, the program gets --local-rank=K as its first argument.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parse_options(arguments, prog, passes_local_rank=passes_local_rank)
    if options.as_torch:
        _report_changed_torch(prog)
    try:
        return launch(options, find_secret(options.nodes, os.environ), prog)
    except FastdistError as error:
        # Nothing has started: the secret is missing or unreadable, the port is taken, the job's
        # folder cannot be created, or no process is available for the watcher.
        print(f"{prog}: {error}", file=sys.stderr)
        return _USAGE_ERROR


def _report_changed_torch(prog: str) -> None:
    from fastdist.installation.state import note

    changed = note()
    if changed is not None:
        print(f"{prog}: {changed}", file=sys.stderr)


def launch(options: LaunchOptions, secret: JobSecret | None, prog: str = "fastdist run") -> int:
    """Run this node's part of the job.

    Thread  main thread only, because it installs signal handlers
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

        def say(line: str) -> None:
            screen.print(os.fsencode(f"{prog}: {line}"), to_stderr=True)

        def make_job() -> Job:
            def where() -> str:
                return f" on node {meeting.card.node}" if options.nodes > 1 else ""

            tell = partial(_tell_of_comeback, prog, screen)
            comebacks = Comebacks(options.comebacks, tell, meeting.others_have_ended)
            endings = Endings(options.shutdown_timeout_s, say, meeting.tell_begin_of_end)
            told = (where, meeting.tell_ended, comebacks, endings)
            return Job(screen, selector, signals, guard, *told)

        logs = _log_folder(options, say)

        def starts() -> Mapping[int, Start]:
            assert meeting.place is not None
            folders = {FOLDER_VARIABLE: folder.path, MONITOR_VARIABLE: folder.path}
            shared = {**_job_variables(options), **folders, **variables}
            return _starts(options, meeting.place, shared, screen.width, logs)

        variables = secret_variables(secret, folder, os.environ)
        meeting.let_others_look(folder)
        most = options.rounds_to_follow
        kept_in = None if logs is None else logs.path
        parts = meeting, screen, selector, make_job, starts
        return Rounds(*parts, prog=prog, most=most, log_folder=kept_in).run()


def _job_variables(options: LaunchOptions) -> dict[str, str]:
    """Return the environment variables that the command line sets for all workers."""
    told = {MAX_RESTARTS: str(options.max_restarts)}
    if options.comebacks:
        told[ALLOW_RESTART] = options.restart
    if options.workers_wait is not None:
        told[INIT_TIMEOUT] = options.workers_wait
    if options.run_id is not None:
        told[RUN_ID] = options.run_id
    if options.shutdown_timeout_s is not None:
        told[SHUTDOWN_TIMEOUT] = f"{options.shutdown_timeout_s:g}"
    return told | (as_torch(os.environ) if options.as_torch else {})


def _tell_of_comeback(prog: str, screen: Screen, failure: Failure, count: int, most: int) -> None:
    write_report(screen, prog, failure, [])
    again = f"{prog}: rank {failure.rank} is started again (restart {count} of {most})"
    screen.print(again.encode(), to_stderr=True)


def _start_guard(folder: JobFolder) -> Guard:
    try:
        return Guard(folder.path)
    except OSError as error:
        raise FastdistError(f"the job's watcher could not be started: {error}") from error


def _open_standard_files() -> None:
    """Open the descriptors of stdin, stdout and stderr if they are closed.

    The process that started this command may have closed them. A worker's pipe would then be opened
    as this process's stdout.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def _log_folder(options: LaunchOptions, say: Callable[[str], None]) -> LogFolder | None:
    if options.logs is None:
        return None
    logs = LogFolder(options.logs, say)
    say(f"the workers' output is kept in {logs.path}")
    return logs


def _starts(
    options: LaunchOptions,
    place: Place,
    shared: Mapping[str, str],
    width: int | None,
    logs: LogFolder | None,
) -> Mapping[int, Start]:
    program = ["-m", options.program] if options.is_module else [options.program]
    threads = max(1, usable_cores() // options.workers_per_node)

    def start(local_rank: int, restart_count: int) -> WorkerProcess:
        environment = worker_environment(
            os.environ,
            place,
            local_rank,
            threads=threads,
            terminal_width=width,
            restart_count=options.earlier_starts + restart_count,
            gpus=options.gpus[local_rank] if options.gpus else None,
            job=shared,
        )
        rank = place.first_rank + local_rank
        own = [f"--local-rank={local_rank}"] if options.passes_local_rank else []
        command = [sys.executable, *program, *own, *options.arguments]
        worker = WorkerProcess(rank, command, environment)
        if logs is not None:
            worker.logs = logs.open(local_rank, rank, restart_count)
        return worker

    local_ranks = range(options.workers_per_node)
    return {place.first_rank + rank: partial(start, rank) for rank in local_ranks}
