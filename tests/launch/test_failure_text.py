"""Tracebacks are held back, and searched for the exception that was raised."""

from __future__ import annotations

import pytest

from fastdist.launch.failure_text import (
    FailureText,
    lost_ranks,
    refer_to,
    what_was_raised,
    without_shown_line,
)

HEADLINE = b"Traceback (most recent call last):"
_PLAIN = """
    Traceback (most recent call last):
      File "worker.py", line 3, in <module>
        raise ValueError("no")
    ValueError: no
    """
_CHAIN = """
    Traceback (most recent call last):
      File "worker.py", line 1, in <module>
    KeyError: 1

    During handling of the above exception, another exception occurred:

    Traceback (most recent call last):
      File "worker.py", line 3, in <module>
    worker.MyError: no
    second line: of the message
    """
_AT_EXIT = """
    Error in atexit._run_exitfuncs:
    Traceback (most recent call last):
      File "worker.py", line 9, in goodbye
    OSError: gone

    During handling of the above exception, another exception occurred:

    Traceback (most recent call last):
      File "worker.py", line 11, in goodbye
    OSError: still gone
    """
_GROUP = """
      + Exception Group Traceback (most recent call last):
      |   File "worker.py", line 3, in <module>
      | ExceptionGroup: two (1 sub-exception)
      +-+---------------- 1 ----------------
        | ValueError: no
        +------------------------------------
    """
_SYNTAX = """
      File "worker.py", line 1
        print(1
             ^
    SyntaxError: '(' was never closed
    """
_FATAL = """
    Fatal Python error: Segmentation fault

    Current thread 0x00007f (most recent call first):
      File "worker.py", line 3 in <module>
    Extension: x
    """
_LOST = """
    Traceback (most recent call last):
      File "worker.py", line 3, in <module>
    fastdist.core.errors.WorkerLostError: worker 'worker1' (rank 1) was lost: it died

    The above exception was the direct cause of the following exception:

    Traceback (most recent call last):
    RuntimeError: step 7
    """


def _lines(text: str) -> list[bytes]:
    # Drop the newlines at both ends of the literal; two leading spaces may belong to the text.
    lines = text.strip("\n").rstrip().splitlines()
    return [line.removeprefix("    ").encode() for line in lines]


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        (_PLAIN, b"ValueError: no"),
        (_PLAIN + "thread pool-0 still runs: a user's function", b"ValueError: no"),
        (_PLAIN.rstrip() + _AT_EXIT, b"ValueError: no"),
        (_AT_EXIT, b"OSError: still gone"),
        (_CHAIN, b"worker.MyError: no"),
        (_GROUP, b"ExceptionGroup: two (1 sub-exception)"),
        (_SYNTAX, b"SyntaxError: '(' was never closed"),
        (_FATAL, b"Fatal Python error: Segmentation fault"),
        ("Traceback (most recent call last):", b""),
        ("no traceback\nat all\n", b"at all"),
        ("", b""),
    ],
)
def test_what_was_raised_is_the_line_of_the_exception(text: str, raised: bytes) -> None:
    assert what_was_raised(_lines(text)) == raised


def test_a_lost_worker_is_found_as_a_cause_too() -> None:
    assert lost_ranks(_lines(_LOST)) == {1}
    assert lost_ranks([*_lines(_PLAIN), b"WorkerLostError: (rank 1) as a log has it"]) == set()


def test_failure_text_holds_from_the_traceback_on() -> None:
    failure = FailureText()
    assert failure.feed(b"a warning", 0.0) == [b"a warning"]
    assert failure.feed(b"Traceback (most recent call last):", 1.0) == []
    assert failure.feed(b"ValueError: no", 2.0) == []
    assert failure.since == 1.0
    assert failure.release() == [b"Traceback (most recent call last):", b"ValueError: no"]
    assert failure.feed(b"more", 3.0) == [b"more"]


def test_failure_text_holds_a_traceback_that_began_behind_a_bar() -> None:
    failure = FailureText()
    assert failure.feed(b" 0 %| |" + HEADLINE, 1.0, is_redrawn=True) == [b" 0 %| |"]
    assert failure.feed(b"ValueError: no", 2.0) == []
    assert failure.release() == [HEADLINE, b"ValueError: no"]
    # A log line that contains the headline of a traceback is passed on.
    assert failure.feed(b"ERROR: " + HEADLINE, 3.0) == [b"ERROR: " + HEADLINE]


def test_failure_text_does_not_hold_without_end() -> None:
    failure = FailureText()
    failure.feed(b"Traceback (most recent call last):", 0.0)
    shown: list[bytes] = []
    while not shown:
        shown = failure.feed(b"x" * 10_000, 0.0)
    assert len(shown) == 28


def test_a_traceback_began_with_the_first_of_its_causes_and_before_what_happens_at_exit() -> None:
    failure = FailureText()
    lines = [b"ERROR: caught", *_lines(_PLAIN), b"a log line"]
    for second, line in enumerate([*lines, *_lines(_CHAIN), *_lines(_AT_EXIT)]):
        failure.feed(line, float(second))
    assert (failure.since, failure.began) == (1.0, float(len(lines)))


def test_what_was_shown_is_known_even_if_its_end_came_later() -> None:
    failure = FailureText()
    failure.feed(HEADLINE, 0.0)
    assert failure.release() == [HEADLINE]
    assert failure.shown == b""
    for line in (b'  File "', b"KeyError: 2", b"NameError: of a log"):
        failure.feed(line, 6.0)
        failure.release()
    assert failure.shown == b"KeyError: 2"


def test_a_reference_to_a_line_that_is_shown_does_not_repeat_it() -> None:
    shown = refer_to("line", b"give --data FOLDER", "")
    assert what_was_raised([shown]) == b"give --data FOLDER"
    assert without_shown_line(shown) == b"the last line that it wrote is above"
    for kept in (refer_to("line", b"give it", "rank0.log"), refer_to("traceback", b"OSError", "")):
        assert without_shown_line(kept) == kept
