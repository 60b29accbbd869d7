"""Progress on a terminal, under a launcher, and in a plain file."""

from __future__ import annotations

import io

import pytest

from fastdist.examples.progress import Progress, bar, plain_bar


@pytest.mark.parametrize(
    ("done", "drawn"),
    [(0.0, "░░░░"), (0.5, "██░░"), (0.53125, "██▏░"), (1.0, "████"), (2.0, "████"), (-1.0, "░░░░")],
)
def test_bar_is_filled_in_eighths(done: float, drawn: str) -> None:
    assert bar(done, 4) == drawn


def test_without_a_terminal_only_the_epochs_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTDIST_TERMINAL_WIDTH", raising=False)
    out = io.StringIO()
    progress = Progress(epochs=3, examples=100, out=out)
    progress.start_epoch()
    progress.step(1, 50, 2.0)
    progress.end_epoch(1, 1.5, 0.91)
    assert out.getvalue().startswith("epoch  1/3  loss 1.5000  test accuracy 91.0%  ")
    assert out.getvalue().endswith(" examples/s\n")
    assert "\r" not in out.getvalue()


def test_behind_a_launcher_a_line_that_ends_in_a_return_is_redrawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTDIST_TERMINAL_WIDTH", "60")
    out = io.StringIO()
    progress = Progress(epochs=3, examples=100, out=out)
    progress.start_epoch()
    monkeypatch.setattr(progress, "_speed", lambda *_: 5_000.0)
    progress.step(1, 50, 2.0)
    progress.end_epoch(1, 1.5, 0.91)
    drawn, *cleared, line = out.getvalue().split("\r")
    assert drawn.startswith("epoch 1/3  ████████░░░░░░░░  loss 2.0000  ")
    assert len(drawn) <= 59
    assert not any(cleared)
    assert line.startswith("epoch  1/3  loss 1.5000")


def test_the_whole_line_fits_the_usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_TERMINAL_WIDTH", "80")
    out = io.StringIO()
    progress = Progress(epochs=24, examples=100, out=out)
    progress.end_epoch(9, 1.5, 0.91)
    monkeypatch.setattr(progress, "_speed", lambda *_: 99_999.0)
    progress.step(10, 1, 2.0)
    assert out.getvalue().splitlines()[-1].endswith(" examples/s")


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (60, "epoch 10/24  ████████░░░░░░░░  loss 2.0000  accuracy 91.0%"),
        (50, "epoch 10/24  ███▌░░░  loss 2.0000  accuracy 91.0%"),
        (40, "epoch 10/24  ██████▌░░░░░░  loss 2.0000"),
        (20, "epoch 10/24  ███░░░"),
    ],
)
def test_on_a_narrow_terminal_the_last_things_go_first(
    width: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTDIST_TERMINAL_WIDTH", str(width))
    out = io.StringIO()
    progress = Progress(epochs=24, examples=100, out=out)
    progress.end_epoch(9, 1.5, 0.91)
    monkeypatch.setattr(progress, "_speed", lambda *_: 99_999.0)
    progress.step(10, 50, 2.0)
    assert out.getvalue().splitlines()[-1] == expected
    assert len(expected) < width


def test_a_terminal_without_block_elements_gets_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_TERMINAL_WIDTH", "60")
    written = io.BytesIO()
    out = io.TextIOWrapper(written, encoding="ascii")
    progress = Progress(epochs=3, examples=100, out=out)
    monkeypatch.setattr(progress, "_speed", lambda *_: 5_000.0)
    progress.step(1, 50, 2.0)
    assert written.getvalue().startswith(b"epoch 1/3  [#######.......]  loss 2.0000  ")


@pytest.mark.parametrize(("done", "drawn"), [(0.0, "[....]"), (0.5, "[##..]"), (1.0, "[####]")])
def test_a_plain_bar_is_filled_in_whole_columns(done: float, drawn: str) -> None:
    assert plain_bar(done, 6) == drawn


def test_a_bar_is_not_redrawn_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_TERMINAL_WIDTH", "60")
    out = io.StringIO()
    progress = Progress(epochs=1, examples=1000, out=out)
    for example in range(1000):
        progress.step(1, example, 1.0)
    assert out.getvalue().count("\r") < 100
