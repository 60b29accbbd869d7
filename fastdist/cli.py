"""The command `fastdist`: run, top, manifest, as-torch, demo, info, version."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

_HELP = """usage: fastdist COMMAND ...

commands:
  run      start a job: fastdist run -n 3 train.py
  top      show the workers of a running job: what they do and wait for
  manifest print a script for Slurm, or a manifest for Kubernetes, of a job on several nodes
  as-torch start a PyTorch program with fastdist for torch: fastdist as-torch train.py
  demo     train a small model whose layers live in three processes; --list shows more demos
  info     show what is installed and what is missing: versions, CPU, BLAS, GPU, kernel cache;
           --warm compiles the kernels that programs commonly need
  version  print fastdist's version

`fastdist COMMAND --help` describes each command.
"""
_AS_TORCH_HELP = """usage: fastdist as-torch PROGRAM ...
       fastdist as-torch -m MODULE ...
       fastdist as-torch --stubs FOLDER
       fastdist as-torch --install
       fastdist as-torch --uninstall

Start a Python program in which `import torch` finds fastdist, also in all processes that it starts.
The arguments are those of `python`: a script or -m MODULE, and its arguments. For the workers of a
job use `fastdist run --as-torch`, in other processes call fastdist.install_as_torch().

--stubs writes type stubs of this `torch` for type checkers and editors, once for a project: pyright
finds them in the folder `typings`, mypy with MYPYPATH=typings.

--install makes fastdist the torch of this Python environment: plain `python` imports it, and pip
finds packages' need for torch satisfied and does not replace it. --uninstall removes it.
"""
_INFO_HELP = """usage: fastdist info
       fastdist info --warm
       fastdist info --warm --into FOLDER

Show what is installed and what is missing: versions, CPU and BLAS, Numba's threading layer, GPU,
the cache of compiled kernels, transports. A line that begins with - names something missing.

--warm compiles the kernels that programs commonly need, so that no call waits for one of them.
--into writes them to a folder that an image can ship to machines with the same type of CPU; set
FASTDIST_SHIPPED_CACHE_DIR to it there. Kernels of another fastdist, Numba or CPU are ignored.
"""
_VERSION_HELP = """usage: fastdist version

Print fastdist's version.
"""
_HELP_WORDS = ("-h", "--help", "help")
_USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    try:
        status = _obey(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # A reader such as `head` closed the pipe. Python's flush at exit must not write to the pipe
        # again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status


def _obey(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) > 1 and given[0] in _HELP_WORDS:
        given = [given[1], "--help"]
    if not given or given[0] in _HELP_WORDS:
        print(_HELP, end="")
        return 0 if given else _USAGE_ERROR
    name = "version" if given[0] in ("-V", "--version") else given[0]
    command = _COMMANDS.get(name)
    if command is None:
        known = ", ".join(_COMMANDS)
        hint = _hint(name, given)
        print(f"fastdist: unknown command {name!r}; known: {known}{hint}", file=sys.stderr)
        return _USAGE_ERROR
    return command(given[1:])


def _hint(name: str, given: Sequence[str]) -> str:
    from fastdist.launch.command_parser import did_you_mean

    near = did_you_mean(name, [*_COMMANDS, "--help", "--version"])
    if not near and (name.startswith("-") or name.endswith(".py") or os.path.isfile(name)):
        return f"; did you mean `fastdist run {' '.join(given)}`?"
    return near


def _run(arguments: Sequence[str]) -> int:
    from fastdist.launch.main import main as run

    return run(arguments)


def _top(arguments: Sequence[str]) -> int:
    from fastdist.launch.top import main as top

    return top(arguments)


def _manifest(arguments: Sequence[str]) -> int:
    from fastdist.launch.manifest import main as print_manifest

    return print_manifest(arguments)


def _as_torch(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "--stubs":
        return _write_stubs(arguments[1:])
    if arguments and arguments[0] in ("--install", "--uninstall"):
        return _change_environment(arguments[0], arguments[1:])
    if arguments and arguments[0] not in _HELP_WORDS:
        program = arguments[0]
        if not program.startswith("-") and not os.path.exists(program):
            print(
                f"fastdist as-torch: there is no script {program!r} here; for a module say -m "
                f"{program}",
                file=sys.stderr,
            )
            return _USAGE_ERROR
        _become(arguments)
    print(_AS_TORCH_HELP, end="")
    return 0 if arguments else _USAGE_ERROR


def _write_stubs(arguments: Sequence[str]) -> int:
    from pathlib import Path

    from fastdist.namespace.torch_stubs import write_stubs

    if len(arguments) != 1:
        got = " ".join(arguments) or "none"
        print(f"fastdist as-torch --stubs: takes one folder, got {got}", file=sys.stderr)
        return _USAGE_ERROR
    try:
        print(f"wrote {write_stubs(Path(arguments[0]))}")
    except OSError as error:
        print(f"fastdist as-torch --stubs: {error}", file=sys.stderr)
        return 1
    return 0


def _change_environment(option: str, more: Sequence[str]) -> int:
    if more:
        print(
            f"fastdist as-torch {option}: does not take arguments, got {' '.join(more)!r}",
            file=sys.stderr,
        )
        return _USAGE_ERROR
    from fastdist.installation.environment import InstallError
    from fastdist.installation.install import install, uninstall

    try:
        report = install(os.environ) if option == "--install" else uninstall()
    except (OSError, InstallError) as error:
        print(f"fastdist as-torch {option}: {error}", file=sys.stderr)
        return 1
    print(report)
    return 0


def _become(arguments: Sequence[str]) -> NoReturn:
    from fastdist.as_torch import environment
    from fastdist.installation.constraint import variables_for
    from fastdist.installation.state import note

    changed = note()
    if changed is not None:
        print(f"fastdist as-torch: {changed}", file=sys.stderr)
    # The call of execve below replaces this process by the program, so that the program's status,
    # signals and tracebacks are unchanged.
    sys.stdout.flush()
    command = [sys.executable, *arguments]
    more = {**environment(os.environ), **variables_for(arguments, os.environ)}
    os.execve(sys.executable, command, {**os.environ, **more})


def _demo(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "digits":
        arguments = arguments[1:]
    if arguments and (arguments[0] == "--list" or not arguments[0].startswith("-")):
        from fastdist.examples.catalogue import run_by_name

        return run_by_name(arguments)
    from fastdist.examples.digits_settings import make_folder, parse_settings
    from fastdist.launch.main import main as run

    # The settings are parsed here, so that a usage error is reported once, not by each worker.
    make_folder(parse_settings(arguments).folder)
    program = ["-n", "3", "-m", "fastdist.examples.digits", *arguments]
    return run(program, prog="fastdist demo")


def _info(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "--warm":
        return _warm(arguments[1:])
    if arguments:
        if arguments[0].partition("=")[0] == "--into":
            print("fastdist info: --into needs --warm: info --warm --into FOLDER", file=sys.stderr)
            return _USAGE_ERROR
        return _refuse_arguments("info", arguments, _INFO_HELP, "only --warm")
    from fastdist.info import as_text

    print(as_text())
    return 0


def _warm(arguments: Sequence[str]) -> int:
    if arguments and (arguments[0] != "--into" or len(arguments) != 2):
        got = " ".join(arguments)
        print(f"fastdist info --warm: takes --into FOLDER or nothing, got {got!r}", file=sys.stderr)
        return _USAGE_ERROR
    from fastdist.system.own_folder import ForeignFolderError
    from fastdist.warm import warm, warm_into

    try:
        print(warm_into(arguments[1]) if arguments else warm())
    except (OSError, ForeignFolderError) as error:
        print(f"fastdist info --warm: {error}", file=sys.stderr)
        return 1
    return 0


def _version(arguments: Sequence[str]) -> int:
    if arguments:
        return _refuse_arguments("version", arguments, _VERSION_HELP)
    from fastdist import __version__

    print(f"fastdist {__version__}")
    return 0


def _refuse_arguments(
    name: str, arguments: Sequence[str], text: str, taken: str = "no arguments"
) -> int:
    if arguments[0] in _HELP_WORDS:
        print(text, end="")
        return 0
    got = " ".join(arguments)
    print(f"fastdist {name}: takes {taken}, got {got!r}", file=sys.stderr)
    return _USAGE_ERROR


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "run": _run,
    "top": _top,
    "manifest": _manifest,
    "as-torch": _as_torch,
    "demo": _demo,
    "info": _info,
    "version": _version,
}

if __name__ == "__main__":
    sys.exit(main())
