"""The command `fastdist`: run, demo, info, version."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

_HELP = """usage: fastdist COMMAND ...

commands:
  run      start a job: fastdist run -n 3 train.py (fastdist run --help tells more)
  demo     train a small model whose layers live in three processes
  info     say what is here and what is missing: versions, CPU, BLAS, GPU, kernel cache
  version  print fastdist's version
"""
_USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        print(_HELP, end="")
        return 0 if given else _USAGE_ERROR
    name = "version" if given[0] in ("-V", "--version") else given[0]
    command = _COMMANDS.get(name)
    if command is None:
        known = ", ".join(_COMMANDS)
        print(f"fastdist: unknown command {name!r}; known: {known}", file=sys.stderr)
        return _USAGE_ERROR
    return command(given[1:])


def _run(arguments: Sequence[str]) -> int:
    from fastdist.launch.main import main as run

    return run(arguments)


def _demo(arguments: Sequence[str]) -> int:
    from fastdist.examples.digits_settings import parse_settings
    from fastdist.launch.main import main as run

    parse_settings(arguments)  # here, so that a mistake is told once and not by every worker
    program = ["-n", "3", "-m", "fastdist.examples.digits", *arguments]
    return run(program, prog="fastdist demo")


def _info(arguments: Sequence[str]) -> int:
    if arguments:
        print(f"fastdist info: takes no arguments, got {' '.join(arguments)!r}", file=sys.stderr)
        return _USAGE_ERROR
    from fastdist.info import as_text

    print(as_text())
    return 0


def _version(arguments: Sequence[str]) -> int:
    if arguments:
        print(f"fastdist version: takes no arguments, got {arguments[0]!r}", file=sys.stderr)
        return _USAGE_ERROR
    from fastdist import __version__

    print(f"fastdist {__version__}")
    return 0


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "run": _run,
    "demo": _demo,
    "info": _info,
    "version": _version,
}

if __name__ == "__main__":
    sys.exit(main())
