"""Package docstrings list all files of their package, and only files that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTED = ROOT / "fastdist" / "distributed"
PACKAGES = [
    path.parent
    for path in sorted([*DISTRIBUTED.rglob("__init__.py"), ROOT / "fastdist/launch/__init__.py"])
    if not path.parent.name.startswith("_")
]
# File names that Python defines, and that need no explanation.
_OBVIOUS = {"__init__.py", "__main__.py"}


def note_of(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_note_names_files_that_exist(package: Path) -> None:
    names = set(re.findall(r"(?<![\w*])[\w/]+\.py\b", note_of(package)))
    places = (package, DISTRIBUTED, ROOT / "fastdist", ROOT)
    assert [name for name in names if not any((at / name).exists() for at in places)] == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_a_note_names_every_file_of_a_large_package(package: Path) -> None:
    files = {path.name for path in package.glob("*.py")} - _OBVIOUS
    note = note_of(package)
    missing = sorted(name for name in files if name not in note)
    assert missing == [] or len(files) < 5, "name them in the note of __init__.py"


@pytest.mark.parametrize("name", ["rpc", "autograd", "pipe", "store", "arena", "../launch"])
def test_a_note_links_to_the_glossary(name: str) -> None:
    assert "docs/glossary.md" in note_of(DISTRIBUTED / name)


def test_files_that_the_glossary_names_exist() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text().partition("## Distributed")[2]
    names = re.findall(r"`([\w/]+\.py)`", text)
    assert len(names) > 30 and [name for name in names if not (ROOT / name).exists()] == []
