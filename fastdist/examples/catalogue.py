"""The programs of `fastdist demo NAME`, by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from fastdist.examples.demo import Demo
from fastdist.launch.command_parser import did_you_mean
from fastdist.launch.main import main as run

NAMES = (
    "cnn",
    "vae",
    "gan",
    "char-lstm",
    "gpt",
    "actor-critic",
    "neural-ode",
    "flow",
    "maml",
    "pinn",
)
# The programs that are jobs of several processes.
JOBS = (
    "parameter-server",
    "batch-parameter-server",
    "rnn",
    "pipeline",
    "rl",
    "batch-rl",
    "data-parallel-ddp",
    "data-parallel-maml",
    "data-parallel-penalty",
    "data-parallel-hessian",
    "data-parallel-pinn",
    "resume",
)
_USAGE_ERROR = 2


def run_by_name(arguments: Sequence[str]) -> int:
    """Run the program that the first argument names, or list all programs; return the exit status.

    Thread  main thread only, because a job's launcher handles signals
    """
    name, *rest = arguments
    if name == "--list":
        print(listed())
        return 0
    if name in JOBS:
        return _start(program(name), rest)
    if name not in NAMES:
        known = ["digits", *NAMES, *JOBS]
        told = f"known: {', '.join(known)}{did_you_mean(name, known)}"
        print(f"fastdist demo: unknown demo {name!r}; {told}", file=sys.stderr)
        return _USAGE_ERROR
    status: int = program(name).main(rest)
    return status


def listed() -> str:
    """Return a line for each program, with the first line of the program's docstring."""
    one, several = ([f"  {name:<23} {_about(name)}" for name in names] for names in (NAMES, JOBS))
    end = (
        "Start one with `fastdist demo NAME`; --help lists its options. `fastdist demo` alone "
        "starts digits, on three processes."
    )
    return "\n".join(["in one process:", *one, "over several processes:", *several, end])


def _about(name: str) -> str:
    return (program(name).__doc__ or "").partition("\n")[0]


def _start(job: ModuleType, arguments: Sequence[str]) -> int:
    """Start the workers of a job, and return its exit status."""
    # Parse the options in the launcher too, so that a mistake is reported once and not by each
    # worker.
    if hasattr(job, "parse_settings"):
        job.parse_settings(arguments)
    else:
        Demo(job.NAME, job.__doc__, arguments, steps=job.STEPS)
    workers = ["-n", str(len(job.WORKERS)), "-m", job.__name__]
    return run([*workers, *arguments], prog=f"fastdist demo {job.NAME}")


def program(name: str) -> ModuleType:
    """Return the module of a program; its main() takes the arguments that follow the name."""
    package, name = (
        ("data_parallel.", name[14:]) if name.startswith("data-parallel-") else ("", name)
    )
    return importlib.import_module(f"fastdist.examples.{package}{name.replace('-', '_')}")
