"""The summary of the digits job, from invented figures."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from fastdist.examples.digits_check import Comparison
from fastdist.examples.digits_measures import Report
from fastdist.examples.digits_summary import (
    Training,
    broken_promises,
    summary,
    write_pictures,
)
from fastdist.examples.time_line import Range

_TRAINING = Training(
    losses=[(1.0, 2.3), (2.0, 1.9)], test_losses=[(2.0, 2.0)], accuracy=0.96, elapsed_s=5.0
)
_G = [np.ones((2, 3)), np.zeros(2)]
_COMPARISON = Comparison(_G, _G, [g + 2e-16 for g in _G], loss=1.5, one_process_loss=1.5)


def _report(worker: str, **totals: float) -> Report:
    return Report(
        worker=worker,
        totals=totals,
        ranges=[Range(worker, kind, 10.0, 10.0 + length) for kind, length in totals.items()],
        calls=1234,
        answered=567,
        sent_bytes=5_600_000,
        received_bytes=100_000,
        resident_bytes=80_000_000,
        grown_bytes=250_000,
    )


_REPORTS = [
    _report("trainer", forward=0.1, backward=0.04, waiting=4.0),
    _report("worker1", forward=0.5, backward=1.0, optimiser=0.2),
    _report("worker2", forward=0.4, backward=0.5, optimiser=0.3),
]


def test_a_good_run_breaks_no_promise() -> None:
    assert broken_promises(_TRAINING, _COMPARISON) == []


def test_a_low_accuracy_breaks_a_promise_unless_settings_were_changed() -> None:
    training = dataclasses.replace(_TRAINING, accuracy=0.94)
    assert broken_promises(training, _COMPARISON) == ["test accuracy is 94.0%, under 95%"]
    assert broken_promises(training, _COMPARISON, may_be_worse=True) == []


@pytest.mark.parametrize("wrong", [1.0 + 1e-9, math.nan])
def test_other_gradients_break_a_promise(wrong: float) -> None:
    gradients = [np.full((2, 3), wrong), np.zeros(2)]
    comparison = dataclasses.replace(_COMPARISON, numpy_gradients=gradients)
    (broken,) = broken_promises(_TRAINING, comparison)
    assert broken.startswith("gradients differ from NumPy by ")


def test_another_loss_breaks_a_promise() -> None:
    comparison = dataclasses.replace(_COMPARISON, one_process_loss=1.5 + 1e-7)
    (broken,) = broken_promises(_TRAINING, comparison)
    assert broken.startswith("the loss after the first epoch differs from one process by 1.0e-07")


def test_the_summary_adds_up_and_fits_a_terminal_behind_a_prefix() -> None:
    text = summary(_TRAINING, _COMPARISON, _REPORTS)
    assert "96.0% of the held-out fifth" in text
    assert "within 0.0e+00 of one process, 2.2e-16 of NumPy" in text
    assert "time               5.0 s for 2 steps: forward 1.0, backward 1.5,\n" in text
    assert "                   optimiser 0.3, calls and waiting 2.2\n" in text
    assert "memory growth      +0.2, +0.2, +0.2 MB from step 200 to step 1,000\n" in text
    assert max(map(len, text.splitlines())) <= 80 - len("[rank 0] ")


def test_summary_says_why_most_of_the_time_is_waiting() -> None:
    why = "                   (messages take longer than layers this small)\n"
    assert why not in summary(_TRAINING, _COMPARISON, _REPORTS)
    text = summary(dataclasses.replace(_TRAINING, elapsed_s=50.0), _COMPARISON, _REPORTS)
    assert why in text
    assert max(map(len, text.splitlines())) <= 80 - len("[rank 0] ")


def test_the_summary_tells_time_calls_bytes_and_memory_of_each_worker() -> None:
    lines = summary(_TRAINING, _COMPARISON, _REPORTS).splitlines()
    assert lines[-5:] == [
        "                seconds of             calls            MB       memory",
        "worker  forward backward optimiser   made answered  sent received    MB",
        "trainer    0.10     0.04      0.00  1,234      567   5.6      0.1    80",
        "worker1    0.50     1.00      0.20  1,234      567   5.6      0.1    80",
        "worker2    0.40     0.50      0.30  1,234      567   5.6      0.1    80",
    ]


def test_a_run_too_short_to_tell_says_nothing_of_growth() -> None:
    report = _REPORTS[0]._replace(grown_bytes=None)
    text = summary(_TRAINING, _COMPARISON, [report, *_REPORTS[1:]])
    assert "memory growth" not in text


def test_the_time_line_shows_the_last_three_steps_whole(tmp_path: Path) -> None:
    kinds = {"trainer": "waiting", "worker1": "forward"}
    reports = [
        _report(worker)._replace(
            ranges=[Range(worker, kind, float(step), step + 0.5) for step in range(5)]
        )
        for worker, kind in kinds.items()
    ]
    _, path = write_pictures(tmp_path, _TRAINING, reports)
    picture = path.read_text(encoding="utf-8")
    assert picture.count("<title>trainer: waiting, 500.000 ms") == 3
    assert picture.count("<title>worker1: forward, 500.000 ms") == 3


def test_the_pictures_are_written_and_parse(tmp_path: Path) -> None:
    paths = write_pictures(tmp_path / "new" / "folder", _TRAINING, _REPORTS)
    assert [path.name for path in paths] == ["loss.svg", "timeline.svg"]
    for path in paths:
        ElementTree.fromstring(path.read_text(encoding="utf-8"))
