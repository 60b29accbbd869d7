"""The prose found in a file, with its kind and line."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from tests.prose import Prose, prose_of


def found(folder: Path, name: str, text: str) -> list[tuple[str, str]]:
    """Write a file, and return the kind and the text of each piece of prose in it."""
    return [(one.kind, one.text) for one in whole(folder, name, text)]


def whole(folder: Path, name: str, text: str) -> list[Prose]:
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return list(prose_of(path))


def test_comments_of_consecutive_lines_are_one(tmp_path: Path) -> None:
    source = """\
        # One thought
        # in two lines.

        a = "# no comment" + '''
        # nor this one
        '''  # but this
        b = 1  # noqa: E501
        """
    comments = [one for one in whole(tmp_path, "a.py", source) if one.kind == "comment"]
    assert comments == [
        Prose(1, "comment", "One thought in two lines.", 2),
        Prose(6, "comment", "but this", 1),
    ]


def test_docstrings_are_those_of_modules_classes_functions_and_attributes(tmp_path: Path) -> None:
    source = '''\
        """The module."""

        class A:
            """The class."""

            b: int = 0
            """The attribute."""

            async def c(self):
                """The function.

                With `code` inside.
                """
        '''
    assert found(tmp_path, "a.py", source) == [
        ("docstring", "The module."),
        ("docstring", "The class."),
        ("docstring", "The attribute."),
        ("docstring", "The function. With `x` inside."),
    ]


def test_messages_are_known_by_the_call_that_takes_them(tmp_path: Path) -> None:
    source = """\
        raise ValueError(f"{name}: no" " such key" + f" in {place!r}")
        assert ready, "not ready"
        error = OSError(5, "broken")
        parser.error("one of two")
        _LOG.warning("%s left", name)
        logging.getLogger(__name__).info("joined")
        warnings.warn("slow", stacklevel=2)
        warn_once(f"{name} is slow" if slow else "old")
        parser.add_argument("--list", help="show each", metavar="WHICH")
        add("--all", help="show all")
        raise KeyError(name)
        raise ValueError(words_of("a key") or "none")
        print("three short words")
        print("four words or more")
        KEPT = "a sentence that is used later"
        """
    assert found(tmp_path, "a.py", source) == [
        ("error", "{}: no such key in {}"),
        ("error", "not ready"),
        ("error", "broken"),
        ("error", "one of two"),
        ("log", "%s left"),
        ("log", "joined"),
        ("warning", "slow"),
        ("warning", "{} is slow"),
        ("warning", "old"),
        ("help", "show each"),
        ("help", "show all"),
        ("error", "a key"),
        ("error", "none"),
        ("text", "four words or more"),
        ("text", "a sentence that is used later"),
    ]


def test_strings_inside_the_values_of_a_message_are_messages_too(tmp_path: Path) -> None:
    source = """raise ValueError(f"got {'one' if n == 1 else 'several'} of {n}")"""
    assert found(tmp_path, "a.py", source) == [
        ("error", "got {} of {}"),
        ("error", "one"),
        ("error", "several"),
    ]


def test_of_a_program_in_a_string_the_comments_are_read(tmp_path: Path) -> None:
    source = """\
        BODY = '''
        // Each thread takes one row.
        extern "C" __global__ void rows(float *out) { /* nothing yet */ }
        '''
        """
    assert whole(tmp_path, "a.py", source) == [
        Prose(2, "comment", "Each thread takes one row.", 1),
        Prose(3, "comment", "nothing yet", 1),
    ]


def test_c_has_comments_of_two_kinds(tmp_path: Path) -> None:
    source = """\
        // One thought
        // in two lines.
        int a = 1; /* Another
                      one. */
        char *b = "// text";
        """
    assert whole(tmp_path, "a.cu", source) == [
        Prose(1, "comment", "One thought in two lines.", 2),
        Prose(3, "comment", "Another one.", 2),
    ]


def test_pages_are_read_without_their_code(tmp_path: Path) -> None:
    page = """\
        # Title

        One paragraph
        in two lines, with `code`.

        ```python
        who = "is told"
        ```
        - an item
        - another
        1. a step

        | a | row |
        """
    assert whole(tmp_path, "a.md", page) == [
        Prose(1, "page", "Title", 1),
        Prose(3, "page", "One paragraph in two lines, with `x`.", 2),
        Prose(9, "page", "an item", 1),
        Prose(10, "page", "another", 1),
        Prose(11, "page", "1. a step", 1),
        Prose(13, "page", "a | row |", 1),
    ]
