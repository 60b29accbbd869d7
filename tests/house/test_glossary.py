"""docs/glossary.md and the package notes that link to it: files exist, and lists match the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
PACKAGES = ("dispatch", "engine", "graph", "interpreters", "namespace", "ops", "tensor")


def entries() -> list[tuple[str, str]]:
    """Return the terms of the glossary, each with its explanation on one line."""
    text = re.sub(r"\n  +", " ", GLOSSARY.read_text())
    return re.findall(r"^- (\*\*.+?\*\*): (.+)$", text, re.MULTILINE)


def note_of(package: str) -> str:
    tree = ast.parse((ROOT / "fastdist" / package / "__init__.py").read_text())
    return ast.get_docstring(tree) or ""


def test_a_term_is_explained_once_in_one_sentence() -> None:
    terms = [term for term, _ in entries()]
    assert len(terms) > 20 and len(terms) == len({*terms})
    assert [term for term, text in entries() if not text.endswith(".") or ". " in text] == []


def test_files_that_the_glossary_names_exist() -> None:
    names = re.findall(r"`([\w/]+/[\w]+\.\w+)`", GLOSSARY.read_text())
    assert names and [name for name in names if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_notes_link_to_the_glossary(package: str) -> None:
    assert "docs/glossary.md" in note_of(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_files_that_a_note_names_exist(package: str) -> None:
    names = {path.name for path in (ROOT / "fastdist").rglob("*.py")}
    assert [one for one in re.findall(r"`(\w+\.py)`", note_of(package)) if one not in names] == []


def test_the_note_of_interpreters_names_all_files_that_offer_calls() -> None:
    asking = {
        path.name
        for path in (ROOT / "fastdist").rglob("*.py")
        if path.parent.name not in ("core", "interpreters")
        and re.search(r"\b(torch_function|interpreter|tracing) import", text := path.read_text())
        and re.search(
            r"(?<!def )\b_?(mode_is_open|active_recorder|offer(_op|_call|_to|_to_mode)?)\(", text
        )
    }
    named = re.search(
        r"^Ops offer .*?(?=;\s+tests/)", note_of("interpreters"), re.MULTILINE | re.DOTALL
    )
    assert named is not None and asking == {*re.findall(r"\w+\.py", named[0])}
