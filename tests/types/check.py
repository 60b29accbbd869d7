"""Run mypy and pyright on the samples in this folder: bad_*.py must have the marked errors only.

Run `python tests/types/check.py`; `.ci/check` runs it. If a line of a bad sample ends in
`# error: WORDS`, both checkers must report an error at a position that overlaps these words. For
every other line they must report no error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fastdist.namespace.torch_stubs import write_stubs

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
# `fastdist as-torch --stubs typings` writes this folder. Without settings, pyright looks for stubs
# in a folder of this name.
STUBS = ROOT / "typings"
SAMPLES = sorted([*FOLDER.glob("good_*.py"), *FOLDER.glob("bad_*.py")])
TIMEOUT_S = 300


class Error(NamedTuple):
    """An error that a checker reports; columns count from 0."""

    file: str
    line: int
    begin: int
    end: int
    text: str


def main() -> int:
    """Print the differences between reported errors and marks; return 1 if there are any."""
    write_stubs(STUBS)
    wrong = [
        f"{checker}: {complaint}"
        for checker, errors in (("mypy", mypy_errors()), ("pyright", pyright_errors()))
        for complaint in complaints(errors)
    ]
    print("\n".join(wrong) or f"{len(SAMPLES)} samples are as they say, to mypy and pyright")
    return bool(wrong)


def run(*command: str) -> str:
    """Return the output of a checker, run by this Python; its exit code is ignored."""
    done = subprocess.run(
        [sys.executable, "-m", *command, *map(str, SAMPLES)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(STUBS)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def mypy_errors() -> list[Error]:
    """Return the errors that mypy reports with --strict."""
    place = r"(?m)^(.+?):(\d+):(\d+):(\d+):(\d+): error: (.*)$"
    found = re.findall(place, run("mypy", "--strict", "--show-error-end"))
    return [
        Error(Path(file).name, int(line), int(begin) - 1, int(end), text)
        if line == last
        else Error(Path(file).name, int(line), int(begin) - 1, sys.maxsize, text)
        for file, line, begin, last, end, text in found
    ]


def pyright_errors() -> list[Error]:
    """Return the errors that pyright reports with the rules in pyproject.toml."""
    told = run("basedpyright", "--outputjson", "--pythonpath", sys.executable)
    errors = []
    for said in json.loads(told)["generalDiagnostics"]:
        begin, end = said["range"]["start"], said["range"]["end"]
        last = end["character"] if begin["line"] == end["line"] else sys.maxsize
        name, text = Path(said["file"]).name, said["message"].splitlines()[0]
        if said["severity"] == "error":
            errors.append(Error(name, begin["line"] + 1, begin["character"], last, text))
    return errors


def complaints(errors: list[Error]) -> Iterator[str]:
    """Yield each error without a mark, and each mark without an error."""
    marks = {(path.name, line): span for path in SAMPLES for line, span in marks_of(path)}
    met = set()
    for error in errors:
        begin, end = marks.get(error[:2], (0, 0))
        if error.begin < end and begin < error.end:
            met.add(error[:2])
        else:
            yield f"{error.file}:{error.line}: {error.text}"
    for file, line in sorted(marks.keys() - met):
        yield f"{file}:{line}: no error at what is marked as one"


def marks_of(path: Path) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the number of each marked line of a sample, with the columns of the marked words."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code, mark, words = line.partition("  # error: ")
        if mark:
            assert words in code, f"{path.name}:{number}: {words!r} is not in {code!r}"
            begin = code.rindex(words)
            yield number, (begin, begin + len(words))


if __name__ == "__main__":
    sys.exit(main())
