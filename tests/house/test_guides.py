"""The sessions of all pages, and the programs of docs/guides, print the output that pages show."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.house.sessions import blocks, is_as_shown
from tests.launch import forked_programs

ROOT = Path(__file__).resolve().parents[2]
GUIDES = ROOT / "docs" / "guides"
FORWARD_MODE = GUIDES / "forward-mode.md"
SVG = "{http://www.w3.org/2000/svg}"
# By page and program: the options of `fastdist run` with which the program is started.
PROGRAMS = {
    "start.md": {"two.py": ["-n", "2"]},
    "errors.md": {"mistakes.py": ["-n", "2"]},
    "torch-rpc.md": {"trainer.py": ["-n", "2"]},
    "passes.md": {"chain.py": ["-n", "3"]},
    "inside.md": {"life.py": ["-n", "2", "--restart=worker", "--max-restarts", "1"]},
}

# Forked workers do not read --as-torch; tests/launch tests this option in new processes.
AS_TORCH = "import fastdist\n\nfastdist.install_as_torch()\n"


def name_of(program: str) -> str:
    """Return the name in a program's first line."""
    first = re.match(r"# (\w+\.py)\n", program)
    assert first, program
    return first[1]


@pytest.mark.one_in(3)
def test_sessions_print_what_is_shown(tmp_path: Path) -> None:
    """One process runs the sessions of all pages, and imports fastdist only once."""
    pages = [str(page) for page in sorted(GUIDES.parent.rglob("*.md")) if blocks(page, "pycon")]
    done = forked_programs.run(["-m", "tests.house.sessions", *pages], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["newton", "maml", "rod"])
def test_a_program_is_run_and_drawn(name: str, tmp_path: Path) -> None:
    """The script that draws the pictures also runs the programs of this page."""
    script, out, page = GUIDES.parent / "draw_forward_mode.py", tmp_path / "out.svg", FORWARD_MODE
    words = ["-n", "3", str(script), name, "--out", str(out)]
    done = forked_programs.run(["-m", "fastdist.run", *words], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown, printed = shown_after(page, f"{name}.py"), done.stdout.splitlines()
    assert shown and [one for one in shown if one not in printed] == []
    assert f"({name}.svg)" in page.read_text()
    assert words_in(out) == words_in(GUIDES / f"{name}.svg")


def words_in(picture: Path) -> list[str]:
    """Return the titles, labels and curve names of a picture."""
    texts = (one.text or "" for one in ElementTree.parse(picture).iter(f"{SVG}text"))
    return [text for text in texts if re.search("[a-z]", text)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("page", "name"), [(page, name) for page, names in PROGRAMS.items() for name in names]
)
def test_a_program_prints_what_is_shown(page: str, name: str, tmp_path: Path) -> None:
    programs = {name_of(text): text for text in blocks(GUIDES / page, "python")}
    head = AS_TORCH if "\nimport torch\n" in programs[name] else ""
    (tmp_path / name).write_text(head + programs[name])
    done = forked_programs.run(["-m", "fastdist.run", *PROGRAMS[page][name], name], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = shown_after(GUIDES / page, name)
    printed = done.stdout.splitlines()
    assert shown and [one for one in shown if not any(is_as_shown(one, p) for p in printed)] == []


def shown_after(page: Path, name: str) -> list[str]:
    """Return the lines that a page shows as the output of the command that starts a program."""
    commands = {text.split("\n", 1)[0]: text for text in blocks(page, "console")}
    (shown,) = [text for first, text in commands.items() if first.endswith(f" {name}")]
    command, *lines = shown.splitlines()
    assert command.startswith("$ fastdist run ")
    return lines


def test_every_program_of_a_guide_is_run() -> None:
    for page in {*GUIDES.glob("*.md")} - {FORWARD_MODE}:
        names = {name_of(text) for text in blocks(page, "python")}
        assert names == {*PROGRAMS.get(page.name, {})}, page
