"""Each rule finds faults in its examples, plain sentences have no fault, and limits only shrink."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import plain_words
from tests.plain_words import (
    AIM,
    FOLDERS,
    LIMITS,
    RULES,
    SHIPPED,
    Tally,
    complaints,
    lowered,
    package_of,
    read_limits,
    report,
    smells_in,
    write_limits,
)
from tests.prose import Prose

SMELLS = {
    "a sentence opens with Of, What, Who or Whose": "It ends. Who waits is woken.",
    "who or whom outside a question": "kept for whom it may concern",
    "is no NOUN": "the argument is no tensor",
    "has not, knows no": "a store that has not the key",
    "Return what": "Return what the call gives.",
    "code that tells, hears, asks or greets": "the store is told of it",
    "is to VERB": "the ring is to be read",
    "once more, by itself, of its own, at hand, beside": "a thread of its own",
    "a chain of pronouns: that of those, of these is, such a one": "the sum of those who left",
    "an old word: lest, till, dear, soon, reckon, anew": "wait till it ends",
    "inverted: So does X": "It ends; so it is. So does the other.",
    "data that comes, goes, stands or lies": "the value stands there",
    "let go, take note, bear": "a holder lets go of it",
}
PLAIN = (
    "What does it cost? Who calls it?",
    "There is no such file; there are no more workers.",
    "the worker is no longer a member, and knows nothing of it",
    "Return the kernel that a call takes.",
    "the owner reports that the value was released",
    "There are 0 sized dimensions",
)


def smells(text: str, kind: str = "comment") -> list[str]:
    return [smell.rule.name for smell in smells_in(Path("a.py"), Prose(1, kind, text, 1))]


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_each_rule_finds_its_phrase(rule: str) -> None:
    assert rule in smells(SMELLS[rule])


@pytest.mark.parametrize("text", PLAIN)
def test_plain_sentences_have_no_smell(text: str) -> None:
    assert smells(text) == []


def test_a_smell_says_where_it_is_and_what_to_write() -> None:
    (smell,) = smells_in(Path("a.py"), Prose(7, "error", "the argument is no tensor", 1))
    assert str(smell) == (
        "a.py:7: error: is no NOUN (is not a NOUN): ...the argument is no tensor..."
    )


@pytest.mark.parametrize(
    ("path", "package"),
    [
        ("fastdist/cli.py", "fastdist"),
        ("fastdist/nn/utils/rnn.py", "fastdist/nn"),
        ("fastdist/distributed/optim.py", "fastdist/distributed"),
        ("fastdist/distributed/rpc/calls/outgoing.py", "fastdist/distributed/rpc"),
        ("tests/distributed/rpc/test_rpc.py", "tests/distributed"),
        ("README.md", "pages"),
        ("docs/launch.md", "docs"),
    ],
)
def test_a_file_counts_for_its_package(path: str, package: str) -> None:
    assert package_of(Path(path)) == package


def counts_of(package: str, smelly: int, lines: int, kind: str = "comment") -> Tally:
    counts = Tally()
    prose = [Prose(1, kind, "one is told", 1)] * smelly
    counts.add(package, Path(package, "a.py"), [*prose, Prose(1, kind, "plain", lines - smelly)])
    return counts


def test_a_package_at_its_limit_passes() -> None:
    assert list(complaints(counts_of("bench", 50, 1000), {"bench": 50})) == []
    assert list(complaints(counts_of("bench", AIM, 1000), {})) == []


def test_a_package_above_its_limit_fails() -> None:
    (complaint,) = complaints(counts_of("bench", 51, 1000), {"bench": 50})
    assert complaint.startswith("bench: 51 smells in 1,000 lines of prose, its limit is 50")
    (complaint,) = complaints(counts_of("bench", AIM + 1, 1000), {})
    assert f"its limit is {AIM}" in complaint


def test_a_package_far_below_its_limit_asks_to_lower_it() -> None:
    assert list(complaints(counts_of("bench", 43, 1000), {"bench": 50})) == []
    (complaint,) = complaints(counts_of("bench", 42, 1000), {"bench": 50})
    assert "well below its limit of 50" in complaint


def test_one_smell_fewer_in_a_small_package_is_not_far_below() -> None:
    assert list(complaints(counts_of("bench", 0, 20), {"bench": 50})) == []


@pytest.mark.parametrize("folder", SHIPPED)
@pytest.mark.parametrize("kind", ["error", "log", "warning", "help", "text"])
def test_what_users_read_has_no_smell_whatever_the_limit(folder: str, kind: str) -> None:
    (complaint,) = complaints(counts_of(folder, 1, 1000, kind), {folder: 1})
    assert complaint.startswith(f"{folder}/a.py:1: {kind}: ")


def test_messages_of_tests_count_with_their_other_prose() -> None:
    assert list(complaints(counts_of("tests", 1, 1000, "error"), {"tests": 1})) == []


def test_strings_of_tests_that_no_call_takes_as_a_message_are_data() -> None:
    assert counts_of("tests", 9, 1000, "text").all_smells() == []


def test_a_limit_of_a_package_that_is_gone_fails() -> None:
    (complaint,) = complaints(Tally(), {"fastdist/old": 9})
    assert complaint.startswith("fastdist/old: has a limit, but no prose")


def test_limits_are_lowered_and_never_raised() -> None:
    assert lowered(counts_of("bench", 30, 1000), {"bench": 50}) == {"bench": 30}
    assert lowered(counts_of("bench", 70, 1000), {"bench": 50}) == {"bench": 50}
    assert lowered(counts_of("bench", AIM, 1000), {"bench": 50, "gone": 9}) == {}


def test_written_limits_keep_the_words_above_them(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text('# They only shrink.\n[limits]\n"b" = 3\n', encoding="utf-8")
    write_limits(path, {"b": 2, "a": 1})
    assert path.read_text(encoding="utf-8") == '# They only shrink.\n[limits]\n"a" = 1\n"b" = 2\n'
    assert read_limits(path) == {"a": 1, "b": 2}


def test_a_report_ends_with_the_sum() -> None:
    lines = list(report(counts_of("bench", 5, 1000)))
    assert lines[0] == "     5  code that tells, hears, asks or greets"
    assert "     5  in  1,000 lines: comment" in lines
    assert lines[-2:] == [
        "     5  in 1,000: bench (5 in 1,000)",
        "5 smells in 1,000 lines of prose: 5 in 1,000",
    ]


def test_every_limit_is_one_of_a_folder_of_the_tree() -> None:
    assert {package.split("/")[0] for package in read_limits(LIMITS)} <= {*FOLDERS, "pages"}


def test_paths_are_counted_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("Who waits is told.\n", encoding="utf-8")
    assert plain_words.main(["--list", str(page)]) == 0
    out = capsys.readouterr().out
    assert f"{page}:1: page: a sentence opens with Of, What, Who or Whose" in out
    assert out.splitlines()[-1] == "2 smells in 1 lines of prose: 2000 in 1,000"


def test_limits_are_those_of_the_whole_tree(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        plain_words.main(["--check", "README.md"])
    assert "limits are those of the whole tree" in capsys.readouterr().err
