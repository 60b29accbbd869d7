"""README.md is not too long, and the commands that it shows are the ones that tests execute."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_it_is_read_in_two_minutes() -> None:
    assert len(README.splitlines()) <= 110
    missing = README.split("## Not there yet\n")[1].split("\n## ")[0]
    assert missing.count("\n- ") == 8


def test_the_first_block_installs_what_a_bare_machine_lacks_and_trains() -> None:
    lacking, clone, demo = blocks("sh")[0].strip().splitlines()
    assert lacking == (
        "sudo apt-get update && sudo apt-get install -y git python3-venv libgomp1 g++"
    )
    assert clone.startswith("git clone ")
    assert demo == (
        "python3 -m venv .venv && .venv/bin/pip install -e . && .venv/bin/fastdist demo"
    )


def test_the_second_block_tests_and_stands_alone() -> None:
    assert blocks("sh")[1].strip() == (
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest"
    )


def test_ci_runs_the_test_command_letter_for_letter() -> None:
    command = blocks("sh")[1].strip()
    assert command.endswith("-m pytest")
    assert f"    {command}\n" in (ROOT / ".ci" / "run").read_text()
