"""One value of a pip.conf is added and removed; all other lines stay the same."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from fastdist.installation import pip_file
from fastdist.installation.environment import InstallError

VALUE = "file:///v/fastdist_torch_constraint.txt"

# Files as users, `pip config set` and editors write them, and the values that pip reads.
FILES = {
    "": [VALUE],
    "[global]\nindex-url = https://i/simple\n": [VALUE],
    "[global]\nindex-url = https://i/simple": [VALUE],
    "# mine\n[install]\nuser = no\n": [VALUE],
    "[install]\nconstraint = a.txt\n": ["a.txt", VALUE],
    "[install]\nconstraint = a.txt": ["a.txt", VALUE],
    "[install]\nconstraint: a.txt b.txt\nuser = no\n": ["a.txt", "b.txt", VALUE],
    "[install]\nconstraint =\n    a.txt\n    # b is old\n    b.txt\n\n[list]\nformat = columns\n": [
        *("a.txt", "b.txt", VALUE),
    ],
    "[install]\nconstraint =\n\ta.txt\nuser = no\n": ["a.txt", VALUE],
    "[INSTALL]\nconstraint = other\n[install]\n--Constraint = a.txt ; b\n": [
        *("a.txt", ";", "b", VALUE),
    ],
    "[install]\r\nconstraint = a.txt\r\n[list]\r\nformat = columns\r\n": ["a.txt", VALUE],
    "[install]\n  constraint = a.txt\n  user = no\n": ["a.txt", VALUE],
    "[install]\nfind-links =\n    constraint=x\n    [y]\nuser = no\n": [VALUE],
    "[global]\nconstraint = a.txt\n\n\n[install]\nuser = no\n": [VALUE],
    "[list]\nformat = columns\n[install]\nuser = no\n\n[freeze]\ntimeout = 10\n": [VALUE],
}


def values(text: str) -> list[str]:
    return pip_file.parse(text, "pip.conf")["install.constraint"].split()


@pytest.mark.parametrize("text", FILES)
def test_pip_reads_the_value_after_those_that_were_there(text: str) -> None:
    added = pip_file.add(text, VALUE)
    assert values(added) == FILES[text]
    before, after = pip_file.parse(text, "pip.conf"), pip_file.parse(added, "pip.conf")
    assert {**after, "install.constraint": ""} == {**before, "install.constraint": ""}
    assert pip_file.add(added, VALUE) == added


@pytest.mark.parametrize("text", FILES)
def test_removing_the_value_gives_the_file_that_was(text: str) -> None:
    removed = pip_file.remove(pip_file.add(text, VALUE), VALUE)
    assert removed.removesuffix("\n") == text.removesuffix("\n")
    assert pip_file.remove(text, VALUE) == text


@pytest.mark.parametrize("text", FILES)
def test_the_value_is_found_where_pip_config_has_rewritten_the_file(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "pip.conf"
    for source in (text, pip_file.add(text, VALUE)):
        parser = configparser.RawConfigParser()
        parser.read_string(source)
        with path.open("w") as file:
            parser.write(file)
        written = path.read_text()
        if source != text:
            assert VALUE not in pip_file.remove(written, VALUE)
            before = pip_file.parse(text, "").get("install.constraint", "").split()
            after = pip_file.parse(pip_file.remove(written, VALUE), "")
            assert after.get("install.constraint", "").split() == before


def test_the_line_end_of_the_file_is_taken() -> None:
    added = pip_file.add("[install]\r\nconstraint = a.txt\r\n", VALUE)
    assert added == f"[install]\r\nconstraint = a.txt\r\n    {VALUE}\r\n"


def test_one_of_several_words_in_a_line_is_removed() -> None:
    text = f"[install]\nconstraint = a.txt {VALUE} b.txt\n"
    assert pip_file.remove(text, VALUE) == "[install]\nconstraint = a.txt b.txt\n"


def test_a_value_that_begins_alike_stays() -> None:
    text = f"[install]\nconstraint = {VALUE}.old\n"
    assert pip_file.remove(text, VALUE) == text
    both = pip_file.add(text, VALUE)
    assert values(both) == [f"{VALUE}.old", VALUE] and pip_file.remove(both, VALUE) == text
    turned = f"[install]\nconstraint = {VALUE} {VALUE}.old\n"
    assert values(pip_file.remove(turned, VALUE)) == [f"{VALUE}.old"]


def test_undecodable_bytes_and_line_ends_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "pip.conf"
    path.write_bytes(b"[global]\r\n# caf\xe9\r\n")
    text = pip_file.read_text(str(path))
    assert text.encode("utf-8", "surrogateescape") == path.read_bytes()
    assert pip_file.read_text(str(tmp_path / "none")) == ""


@pytest.mark.parametrize("text", ["constraint = a\n", "[install]\na = 1\na = 2\n", "[a]\n[a]\n"])
def test_a_file_that_pip_cannot_read_is_named(text: str) -> None:
    with pytest.raises(InstallError, match=r"^/v/pip\.conf is not a configuration that pip"):
        pip_file.parse(text, "/v/pip.conf")
