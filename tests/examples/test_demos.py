"""Each program of `fastdist demo NAME` ends, learns, prints its result, and draws."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

import fastdist
from fastdist import cli
from fastdist.examples import catalogue, gpt

# By demo: the number of steps in a test, and the bound that the result must meet.
SHORT: dict[str, tuple[int, str, float]] = {
    "cnn": (60, "at least", 0.5),
    "vae": (100, "at most", 29.0),
    "gan": (100, "at most", 1.5),
    "char-lstm": (40, "at least", 0.2),
    "gpt": (40, "at most", 4.7),
    "actor-critic": (50, "at least", 40.0),
    "neural-ode": (60, "at most", 2.0),
    "flow": (100, "at most", 1.9),
    "maml": (100, "at most", 4.5),
    "pinn": (100, "at most", 0.7),
}


class Told(NamedTuple):
    """The figures and text that a demo has printed, and the path of its picture."""

    early: float
    late: float
    result: float
    words: str
    picture: Path


def run(name: str, steps: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    assert cli.main(["demo", name, "--steps", str(steps), "--out", str(folder)]) == 0
    out = capsys.readouterr().out
    watched = re.search(r" from (\S+) to (\S+) in \d+ steps, ", out)
    result = re.search(r"^result: .* (\S+)$", out, flags=re.MULTILINE)
    assert watched and result, out
    return Told(float(watched[1]), float(watched[2]), float(result[1]), out, folder / f"{name}.svg")


@pytest.fixture(autouse=True)
def takes_little(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make demos cheap: one thread for kernels, and a single line of text from the GPT.

    Other tests need the cores: with two threads, which wait for each other, demos took ten times
    the CPU time. Each letter that the GPT writes takes a forward pass.
    """
    monkeypatch.setattr(gpt, "WRITTEN", gpt.LENGTH + 16)
    before = fastdist.get_num_threads()
    fastdist.set_num_threads(1)
    yield
    fastdist.set_num_threads(before)


def test_every_demo_is_tested() -> None:
    assert list(SHORT) == list(catalogue.NAMES)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", SHORT)
def test_a_demo_learns_and_draws(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps, word, bound = SHORT[name]
    told = run(name, steps, tmp_path, capsys)
    learnt = told.late > told.early if name == "actor-critic" else told.late < told.early
    kept = told.result >= bound if word == "at least" else told.result <= bound
    assert learnt and kept, told.words
    assert f"picture: {told.picture}" in told.words
    assert ElementTree.parse(told.picture).getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", SHORT)
def test_a_demo_of_one_step_ends_well_and_promises_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = run(name, 1, tmp_path, capsys)
    assert "promised" not in told.words
    ElementTree.parse(told.picture)


def test_the_list_tells_of_every_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split() for line in lines if line.startswith("  ")]
    assert [words[0] for words in listed] == [*catalogue.NAMES, *catalogue.JOBS]
    assert all(len(words) > 4 for words in listed)


def test_an_unknown_demo_is_told_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "char-lsmt"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("fastdist demo: unknown demo 'char-lsmt'; known: digits, cnn, ")
    assert told.endswith("; did you mean char-lstm?\n")
    assert cli.main(["demo", "digit"]) == 2
    assert capsys.readouterr().err.endswith("; did you mean digits?\n")


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["--help"], 0, "usage: fastdist demo cnn "),
        (["--steps", "0"], 2, "fastdist demo cnn: --steps must be at least 1, got 0"),
        (["--seed", "-1"], 2, "fastdist demo cnn: --seed must be 0 or more"),
        (["--stepz", "3"], 2, "did you mean --steps?"),
        (["--bogus"], 2, "fastdist demo cnn: unknown: --bogus\n"),
    ],
)
def test_a_demo_reads_its_own_options(
    arguments: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as told:
        cli.main(["demo", "cnn", *arguments])
    assert told.value.code == status
    assert text in "".join(capsys.readouterr())
