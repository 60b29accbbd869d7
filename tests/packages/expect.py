"""Run the programs on PyTorch and store their results: `python -m tests.packages.expect [NAME]`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# The programs' folder is last on the path, because its files have the names of the packages.
PROGRAM = (
    "import runpy, sys; sys.path.append(sys.argv[1]); import torch; "
    "assert 'fastdist' not in torch.__version__; runpy.run_path(sys.argv[2])"
)


def main(chosen: list[str]) -> None:
    """Store the results of the chosen programs, or of all programs if none is chosen."""
    stored = HERE / "expected.json"
    expected = json.loads(stored.read_text()) if stored.exists() else {}
    programs = HERE / "programs"
    for path in sorted(programs.glob("*.py")):
        if path.stem != "data" and (not chosen or path.stem in chosen):
            command = [sys.executable, "-W", "ignore", "-c", PROGRAM, programs, path]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
            expected[path.stem] = json.loads(line.removeprefix("RESULT "))
    stored.write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
