"""The programs of `fastdist demo NAME`, by name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from types import ModuleType

from fastdist.launch.command_parser import did_you_mean

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
_USAGE_ERROR = 2


def run_by_name(arguments: Sequence[str]) -> int:
    """Run the program that the first argument names, or list all; return the exit status."""
    name, *rest = arguments
    if name == "--list":
        print(listed())
        return 0
    if name not in NAMES:
        known = ", ".join(NAMES)
        near = did_you_mean(name, NAMES)
        print(f"fastdist demo: unknown demo {name!r}; known: {known}{near}", file=sys.stderr)
        return _USAGE_ERROR
    status: int = program(name).main(rest)
    return status


def listed() -> str:
    """Return a line for each program, from the first line of its file."""
    lines = [f"  {name:<13}{(program(name).__doc__ or '').partition(chr(10))[0]}" for name in NAMES]
    end = "Each is started by `fastdist demo NAME`, and tells its options with --help."
    return "\n".join([*lines, end])


def program(name: str) -> ModuleType:
    """Return the module of a program; its main() takes the arguments after the name."""
    return importlib.import_module(f"fastdist.examples.{name.replace('-', '_')}")
