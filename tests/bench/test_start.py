"""Start-up costs of programs are printed next to their bounds; exceeding a bound fails."""

from __future__ import annotations

import sys

import pytest

from bench import start
from bench.harness import Failed


def test_figures_stand_beside_their_bounds_and_those_above_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "_told", lambda script, cache: (0.25, 3.0))
    monkeypatch.setattr(start, "_run", lambda script, cache: "")
    monkeypatch.setattr(start, "_told_by_a_job", lambda cache: (0.0, 55.0))
    monkeypatch.setattr(start, "WARM", (sys.executable, "-c", "pass"))
    with pytest.raises(
        Failed, match="above their bounds: first large op, full cache: CPU, a worker"
    ):
        start.run(2)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.endswith("!") for line in lines] == [True, False, True, True, True, False, False]
    assert [line[46:64].split() for line in lines[:2]] == [["0.250", "0.100"], ["3.000", "15.000"]]


def test_a_script_prints_its_two_numbers(tmp_path: object) -> None:
    assert start._told("print(1.5, 2)", str(tmp_path)) == (1.5, 2.0)
