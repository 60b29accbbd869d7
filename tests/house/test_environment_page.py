"""docs/environment.md lists the environment variables that fastdist reads."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def variables_in(text: str) -> set[str]:
    return set(re.findall(r"\bFASTDIST_[A-Z]+(?:_[A-Z]+)*\b", text))


def test_every_variable_is_on_the_page_and_no_other() -> None:
    read: set[str] = set()
    for folder in ("fastdist", "kernels"):
        for file in (ROOT / folder).rglob("*.py"):
            read |= variables_in(file.read_text())
    listed = variables_in((ROOT / "docs" / "environment.md").read_text())
    assert len(read) > 30
    assert (read - listed, listed - read) == (set(), set())
