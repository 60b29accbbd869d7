"""Each job of `fastdist demo NAME`: its workers connect, learn, meet the bound, and end."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

import fastdist
from fastdist.examples import catalogue
from fastdist.examples.digits_data import load_digits
from fastdist.examples.job import endless
from fastdist.namespace.threads import use_one_thread
from tests.distributed.workers import run_group
from tests.launch import forked_programs

_ROOT = str(Path(fastdist.__file__).parents[1])

# By job: the number of steps in a test, the bound that the result must meet, and whether the loss
# falls (otherwise another figure rises). With --slow there are SLOW times as many steps.
SHORT: dict[str, tuple[int, str, float, bool]] = {
    "parameter-server": (12, "at most", 1e-9, True),
    "batch-parameter-server": (12, "at most", 1e-9, True),
    "rnn": (10, "at most", 1e-8, True),
    "pipeline": (6, "at most", 1e-9, True),
    # An untrained agent balances poles for 22 ticks. Each step makes 200 calls.
    "rl": (6, "at least", 29.0, False),
    "batch-rl": (6, "at least", 29.0, False),
    "data-parallel-ddp": (10, "at most", 1e-12, True),
    "data-parallel-maml": (10, "at most", 1e-12, True),
    "data-parallel-penalty": (8, "at most", 1e-12, True),
    "data-parallel-hessian": (6, "at most", 1e-12, False),
    "data-parallel-pinn": (10, "at most", 1e-12, True),
}
SLOW = 3


def test_every_job_is_tested() -> None:
    assert [*SHORT, "resume"] == list(catalogue.JOBS)  # test_resume.py tests `resume`


class Done(NamedTuple):
    """A job that has ended without an error: its output, its folder, and its number of steps."""

    output: str
    folder: Path
    steps: int


# Only this job is started by its command, in forked processes. The other jobs differ only in what
# their workers run. test_digits.py starts a job in new interpreters.
BY_COMMAND = "pipeline"


def words_of(name: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the arguments that `fastdist demo NAME`, with `steps`, passes to the launcher."""
    given: list[list[str]] = []
    monkeypatch.setattr(catalogue, "run", lambda words, prog: given.append(words) or 0)
    assert catalogue.run_by_name([name, "--steps", str(steps)]) == 0
    return given[0]


def run_module(name: str, arguments: list[str], folder: str) -> tuple[object, str]:
    """Run one worker of a job like `python -m NAME`; return its exit status and its output."""
    use_one_thread()  # like the launcher; several threads would wait for each other
    os.chdir(folder)
    sys.argv[1:] = arguments
    with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    return ended.value.code, printed.getvalue()


@pytest.fixture(scope="module")
def run_job(tmp_path_factory: pytest.TempPathFactory, samples_alone: bool) -> Callable[[str], Done]:
    """Return a function that runs the job with a name, once for all tests that use this job."""

    @functools.cache
    def run(name: str) -> Done:
        folder = tmp_path_factory.mktemp(name)
        steps = SHORT[name][0] * (1 if samples_alone else SLOW)
        if name == BY_COMMAND:
            words = ["-m", "fastdist.cli", "demo", name, "--steps", str(steps)]
            done = forked_programs.run(words, folder, timeout_s=100)
            assert done.returncode == 0, done.stdout + done.stderr
            return Done(done.stdout, folder, steps)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            _, count, _, module, *arguments = words_of(name, steps, patch)
        ends = run_group(run_module, int(count), module, arguments, str(folder))
        assert [status for status, _ in ends] == [0] * int(count), ends
        return Done(ends[0][1], folder, steps)

    return run


@pytest.mark.parametrize("name", SHORT)
def test_a_job_is_started_as_its_workers(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    job = catalogue.program(name)
    steps = ["--steps", str(SHORT[name][0])]
    expected = ["-n", str(len(job.WORKERS)), "-m", job.__name__, *steps]
    assert words_of(name, SHORT[name][0], monkeypatch) == expected


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", SHORT)
def test_a_job_learns_and_keeps_its_promise(name: str, run_job: Callable[[str], Done]) -> None:
    _, word, bound, falls = SHORT[name]
    output, folder, steps = run_job(name)
    watched = re.search(r" from (\S+) to (\S+) in (\d+) steps, ", output)
    result = re.search(r"result: .* (\S+)\n", output)
    assert watched and result and int(watched[3]) == steps, output
    early, late, found = float(watched[1]), float(watched[2]), float(result[1])
    assert (late < early) == falls, output
    assert found <= bound if word == "at most" else found >= bound, output
    picture = ElementTree.parse(folder / "fastdist-demo" / f"{name}.svg")
    assert picture.getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.one_in(5)
def test_batched_decisions_are_those_of_the_agent_alone(run_job: Callable[[str], Done]) -> None:
    one, other = (re.search(r"result: (.*)\n", run_job(name).output) for name in ("rl", "batch-rl"))
    assert one and other and one[1] == other[1]


def test_a_mistake_is_told_once_and_before_anything_starts(tmp_path: Path) -> None:
    done = forked_programs.run(["-m", "fastdist.cli", "demo", "pipeline", "--steps", "0"], tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("--steps must be at least 1, got 0") == 1
    assert "rank" not in done.stderr + done.stdout


def test_a_job_alone_says_how_to_start_it(tmp_path: Path) -> None:
    done = forked_programs.run(["-m", "fastdist.examples.rnn"], tmp_path)
    assert done.returncode == 1
    words = "start it with `fastdist run -n 2 -m fastdist.examples.rnn`, or `fastdist demo rnn`"
    assert words in done.stderr


def test_endless_batches_are_whole_and_go_on_after_an_epoch() -> None:
    training = load_digits().training
    data = endless(training, 500)  # two whole batches per epoch
    batches = [next(data) for _ in range(5)]
    assert {len(labels) for _, labels in batches} == {500}
    assert not bool((batches[0][1] == batches[2][1]).all())
