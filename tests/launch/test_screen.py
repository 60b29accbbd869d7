"""The lines of many workers on one terminal, file or pipe."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import struct
import termios
from collections.abc import Iterator
from pathlib import Path
from selectors import PollSelector

import pytest

from fastdist.launch.screen import Screen, fit


@pytest.fixture(autouse=True)
def able_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make terminals able to redraw a line; the terminal of the test run may not be able to."""
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Yield the two ends of a terminal of 20 columns: (its screen, the programs' output)."""
    screen, program = pty.openpty()
    fcntl.ioctl(program, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
    attributes = termios.tcgetattr(program)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(program, termios.TCSANOW, attributes)
    yield screen, program
    os.close(screen)
    os.close(program)


def _write_out(screen: Screen, selector: PollSelector) -> None:
    while not screen.is_empty:
        for key, _ in selector.select(5.0):
            key.data()


def _shown(screen: int, expected: bytes) -> bytes:
    """Return as many bytes of the terminal's output as are expected; they arrive in parts."""
    found = b""
    while len(found) < len(expected):
        assert select.select([screen], [], [], 5.0)[0], f"only {found!r} came"
        found += os.read(screen, 4096)
    return found


def test_a_redrawn_line_stays_below_the_others(terminal: tuple[int, int]) -> None:
    shown, program = terminal
    with PollSelector() as selector:
        screen = Screen(selector, out=program, err=program)
        screen.redraw(b"50 %")
        screen.print(b"[rank 1] hello")
        screen.redraw(b"")
        _write_out(screen, selector)
    clear = b"\r\x1b[K"
    expected = clear + b"50 %" + clear + b"[rank 1] hello\n" + b"50 %" + clear
    assert _shown(shown, expected) == expected


def test_a_redrawn_line_is_cut_to_the_terminal(terminal: tuple[int, int]) -> None:
    shown, program = terminal
    with PollSelector() as selector:
        screen = Screen(selector, out=program, err=program)
        screen.redraw(b"0123456789" * 3)
        _write_out(screen, selector)
        assert screen.width == 20
    expected = b"\r\x1b[K0123456789012345678"
    assert _shown(shown, expected) == expected


def test_redrawn_lines_are_dropped_where_there_is_no_terminal(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY, 0o600)
    with PollSelector() as selector:
        screen = Screen(selector, out=fd, err=fd)
        screen.redraw(b"50 %")
        screen.print(b"done")
        _write_out(screen, selector)
        assert screen.width is None
    os.close(fd)
    assert (tmp_path / "out").read_bytes() == b"done\n"


def test_a_reader_that_has_gone_breaks_the_screen_but_not_the_launcher() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    with PollSelector() as selector:
        screen = Screen(selector, out=write_fd, err=write_fd)
        screen.print(b"x")
        _write_out(screen, selector)
        assert isinstance(screen.error, BrokenPipeError)
        screen.print(b"y")
        assert screen.is_empty
    os.close(write_fd)


def test_a_terminal_that_was_closed_breaks_the_screen_but_not_the_launcher() -> None:
    shown, program = pty.openpty()
    with PollSelector() as selector:
        screen = Screen(selector, out=program, err=program)
        screen.redraw(b"50 %")
        os.close(shown)
        screen.redraw(b"60 %")
        assert screen.error is not None and screen.error.errno == errno.EIO
        assert screen.is_empty and not selector.get_map()
    os.close(program)


def test_a_slow_reader_fills_the_screen_without_blocking() -> None:
    read_fd, write_fd = os.pipe()
    with PollSelector() as selector:
        screen = Screen(selector, out=write_fd, err=write_fd)
        for _ in range(300):
            screen.print(b"x" * 4096)
        while selector.select(0):
            for key, _ in selector.select(0):
                key.data()
        assert screen.is_full
        seen = 0
        while not screen.is_empty:
            seen += len(os.read(read_fd, 1 << 16))
            for key, _ in selector.select(0):
                key.data()
        assert not screen.is_full
    os.close(write_fd)
    while chunk := os.read(read_fd, 1 << 16):
        seen += len(chunk)
    os.close(read_fd)
    assert seen == 300 * 4097


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 10, "short"),
        ("0123456789", 4, "0123"),
        ("日本語", 5, "日本"),
        ("\x1b[32mgreen\x1b[0m", 3, "\x1b[32mgre\x1b[0m"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301e\u0301"),
    ],
)
def test_fit_counts_columns_not_characters(text: str, width: int, shown: str) -> None:
    assert fit(text.encode(), width).decode() == shown


def test_fit_survives_bytes_that_are_no_text() -> None:
    assert fit(b"\xff\xfeab", 10).decode() == "\ufffd\ufffdab"
