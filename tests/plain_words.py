"""Find phrases in prose that engineers have to read twice; the allowed numbers only shrink.

Usage: python -m tests.plain_words [--list] [PATH ...]     count by kind, by rule and by package
       python -m tests.plain_words --check                 fail if a package is above its limit
       python -m tests.plain_words --lower                 lower each limit to the current count

A match of a rule (a smell) is not always a fault, so read the line before you rewrite it. Each rule
says what to write instead.
"""

from __future__ import annotations

import argparse
import gc
import math
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.prose import KINDS, MESSAGES, SUFFIXES, TEXT, Prose, prose_of

ROOT: Final = Path(__file__).resolve().parents[1]
LIMITS: Final = Path(__file__).with_name("plain_words_limits.toml")
FOLDERS: Final = ("fastdist", "kernels", "tests", "bench", "docs")
# Users read the messages of these packages while they work, so no smell is allowed there.
SHIPPED: Final = ("fastdist", "kernels")
# Smells allowed in 1,000 lines of a package that has no entry in the table: as in NumPy and SciPy.
AIM: Final = 6


class Rule(NamedTuple):
    """A kind of phrase to look for, and what to write instead."""

    name: str
    instead: str
    pattern: re.Pattern[str]


def _rule(name: str, instead: str, pattern: str) -> Rule:
    return Rule(name, instead, re.compile(pattern))


RULES: Final = (
    _rule(
        "a sentence opens with Of, What, Who or Whose",
        "begin with the subject",
        r"(?:^|[.;:!?] +)(?:Of|What(?:ever)?|Who(?:m|se|ever)?)\b(?![^.?!]*\?)",
    ),
    _rule(
        "who or whom outside a question",
        "name it: a caller, a user, a worker, a peer; code is which or that",
        r"(?:^|[ (,])(?:for|of|to|by|from|with|than|and|or|as|is|tells|asks|knows) whom?\b"
        r"|\bwhom\b",
    ),
    _rule(
        "is no NOUN",
        "is not a NOUN",
        r"(?<![Tt]here )\b(?:is|are|was|were) no (?!longer|more than|one\b|such|need|way|reason"
        r"|doubt|point|use\b|other|different|better|worse|faster|slower)[a-z]+",
    ),
    _rule(
        "has not, knows no",
        "does not have, does not know",
        r"\bha(?:s|ve|d) not(?= (?:a |an |the |it|that|them|one|what)|[.,;:)]|$)|\bknows? no\b"
        r"|\bneeds? not\b|\btakes? no\b|\bmakes? no\b(?! progress)",
    ),
    _rule("Return what", "name the noun: Return the kernel that ...", r"\bReturns? what\b"),
    _rule(
        "code that tells, hears, asks or greets",
        "sends, receives, reports, notifies, queries, connects",
        r"\b(?:is|are|was|were|be|been|gets?) (?:not )?(?:told|heard|asked|greeted)\b"
        r"|\b(?:hears?|tells?) (?:of|what|who|whether|how|that)\b|\bby (?:its|their) word\b",
    ),
    _rule(
        "is to VERB",
        "must, should, will",
        r"\b(?:is|are|was|were) to (?:be|have|go|come|get|make|take|give|do|hold|wait|find|know"
        r"|let|keep)\b",
    ),
    _rule(
        "once more, by itself, of its own, at hand, beside",
        "again; alone; its own NOUN; available; next to, with",
        r"\bonce more\b|\bof (?:its|their|his) own\b|\bat hand\b"
        r"|\bbeside (?:it|them|this|that|the)\b|\bby (?:itself|themselves)\b",
    ),
    _rule(
        "a chain of pronouns: that of those, of these is, such a one",
        "name the thing again",
        r"\bthat of (?:who|what|the one|which)\b|\bsuch (?:a )?one\b"
        r"|\bof (?:these|those|them) (?:is|are|was|has|have|it|the|a|an|who|which|that|none|no"
        r"|all|each|one)\b|\bthose (?:who|whom)\b",
    ),
    _rule(
        "an old word: lest, till, dear, soon, reckon, anew",
        "until, expensive, fastest, compute, again",
        r"\b(?:thereof|therein|hereby|lest|till|dear(?:er|est)?|sooner|soonest|of old|reckon\w*"
        r"|whence|hence|nought|aught|amiss|anew)\b",
    ),
    _rule(
        "inverted: So does X",
        "X does so too",
        r"(?:^|[.;:] +)(?:(?:So|Thus|Then|Only then|Nor|Neither) (?:does|do|is|are|has|have|can|may"
        r"|will|was|were)|(?:So|Thus|Here|There|Then) (?:goes|comes|lies|stands))\b",
    ),
    _rule(
        "data that comes, goes, stands or lies",
        "is, is stored, arrives, is sent",
        r"\b(?:comes?|came|goes|went|stands?|stood|lies|lay) (?:of|from it|by it|there|here|in its"
        r"|in their|for itself|apart|together)\b",
    ),
    _rule(
        "let go, take note, bear",
        "release, record, carry",
        r"\blets? go\b|\btakes? note\b|\bbears?\b|\bborne\b",
    ),
)


class Smell(NamedTuple):
    """One match of a rule in one piece of prose."""

    path: Path
    prose: Prose
    rule: Rule
    found: re.Match[str]

    def __str__(self) -> str:
        text, (first, last) = self.prose.text, self.found.span()
        around = text[max(0, first - 40) : last + 60]
        place = f"{self.path}:{self.prose.line}: {self.prose.kind}"
        return f"{place}: {self.rule.name} ({self.rule.instead}): ...{around}..."


class Tally:
    """By package, the smells that were found, and the number of lines of prose."""

    def __init__(self) -> None:
        self.smells: dict[str, list[Smell]] = {}
        self.lines: Counter[str] = Counter()
        self.lines_of_kind: Counter[str] = Counter()

    def add(self, package: str, path: Path, prose: Iterable[Prose]) -> None:
        """Count the prose of one file."""
        smells = self.smells.setdefault(package, [])
        for one in prose:
            if one.kind == TEXT and not package.startswith(SHIPPED):
                continue  # in tests, such text is often data
            self.lines[package] += one.lines
            self.lines_of_kind[one.kind] += one.lines
            smells += smells_in(path, one)

    def all_smells(self) -> list[Smell]:
        return [smell for smells in self.smells.values() for smell in smells]

    def rate(self, package: str) -> float:
        """Return the number of smells in 1,000 lines of a package's prose."""
        return 1000 * len(self.smells[package]) / max(self.lines[package], 1)


def smells_in(path: Path, prose: Prose) -> Iterator[Smell]:
    """Yield each match of each rule in a piece of prose."""
    for rule in RULES:
        for found in rule.pattern.finditer(prose.text):
            yield Smell(path, prose, rule, found)


def package_of(path: Path) -> str:
    """Return the package to which a file is counted: its first two or three folders."""
    folders = path.parts[:-1]
    if not folders:
        return "pages"
    return "/".join(folders[: 3 if folders[:2] == ("fastdist", "distributed") else 2])


def files(root: Path, given: Iterable[Path] = ()) -> list[Path]:
    """Return the files with prose below the given paths, by default below the whole tree."""
    tops = list(given) or [*(root / folder for folder in FOLDERS), *sorted(root.glob("*.md"))]
    found = []
    for top in tops:
        found += sorted(top.rglob("*")) if top.is_dir() else [top] if top.exists() else []
    return [path for path in found if path.suffix in SUFFIXES and path.is_file()]


def tally(root: Path, paths: Iterable[Path]) -> Tally:
    """Count the prose of files, which may lie outside `root`."""
    counts = Tally()
    with without_collector():
        for path in paths:
            inside = path.resolve().is_relative_to(root)
            name = path.resolve().relative_to(root) if inside else path
            counts.add(package_of(name), name, prose_of(path))
    return counts


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the garbage collector, which takes a fifth of the time; syntax trees have no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def complaints(counts: Tally, limits: dict[str, int]) -> Iterator[str]:
    """Yield a sentence for each package that is above its limit or far below its limit."""
    for package, smells in counts.smells.items():
        if package.startswith(SHIPPED):
            yield from (
                f"{smell}\n    errors, logs, warnings and help have no smell at all"
                for smell in smells
                if smell.prose.kind in MESSAGES
            )
        limit, lines = limits.get(package, AIM), counts.lines[package]
        # A limit is a number of smells in 1,000 lines, so a small package may be allowed less than
        # one smell: round up.
        if len(smells) > math.ceil(limit * lines / 1000):
            yield (
                f"{package}: {counts.rate(package):.0f} smells in 1,000 lines of prose, its limit "
                f"is {limit}: `python -m tests.plain_words --list {package}` shows them"
            )
        elif package in limits and len(smells) < 0.9 * limit * lines / 1000 - 2:
            yield (
                f"{package}: {counts.rate(package):.0f} smells in 1,000 lines of prose, well below "
                f"its limit of {limit}: `python -m tests.plain_words --lower` keeps what was won"
            )
    for package in limits.keys() - counts.smells.keys():
        yield f"{package}: has a limit, but no prose: remove its row, or rename it"


def lowered(counts: Tally, limits: dict[str, int]) -> dict[str, int]:
    """Return lowered limits; omit packages that no longer need a limit above the default."""
    now = {
        package: min(limit, math.ceil(counts.rate(package)))
        for package, limit in limits.items()
        if package in counts.smells
    }
    return {package: limit for package, limit in now.items() if limit > AIM}


def read_limits(path: Path) -> dict[str, int]:
    """Return the table of limits."""
    limits: dict[str, int] = tomllib.loads(path.read_text(encoding="utf-8"))["limits"]
    return limits


def write_limits(path: Path, limits: dict[str, int]) -> None:
    """Replace the table of limits, but keep the text above it."""
    head = path.read_text(encoding="utf-8").partition("[limits]")[0]
    rows = "".join(f'"{package}" = {limit}\n' for package, limit in sorted(limits.items()))
    path.write_text(f"{head}[limits]\n{rows}", encoding="utf-8")


def report(counts: Tally) -> Iterator[str]:
    """Yield the lines of the report: counts by rule, by kind and by package, and the total."""
    smells = counts.all_smells()
    by_rule = Counter(smell.rule.name for smell in smells)
    yield from (f"{count:6}  {name}" for name, count in by_rule.most_common())
    yield ""
    by_kind = Counter(smell.prose.kind for smell in smells)
    for kind in KINDS:
        yield f"{by_kind[kind]:6}  in {counts.lines_of_kind[kind]:6,} lines: {kind}"
    yield ""
    for package in sorted(counts.smells, key=counts.rate, reverse=True):
        hits, lines = len(counts.smells[package]), counts.lines[package]
        yield f"{counts.rate(package):6.0f}  in 1,000: {package} ({hits} in {lines:,})"
    lines = counts.lines.total()
    rate = 1000 * len(smells) / max(lines, 1)
    yield f"{len(smells):,} smells in {lines:,} lines of prose: {rate:.0f} in 1,000"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line: count smells, check the limits, or lower the limits."""
    parser = argparse.ArgumentParser(prog="python -m tests.plain_words", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="files or folders")
    parser.add_argument("--list", action="store_true", help="show each smell")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--check", action="store_true", help="compare with the limits")
    one.add_argument("--lower", action="store_true", help="lower the limits to the counts")
    given = parser.parse_args(arguments)
    if given.paths and (given.check or given.lower):
        parser.error("limits are those of the whole tree: leave out the paths")
    counts = tally(ROOT, files(ROOT, given.paths))
    if given.list:
        print(*counts.all_smells(), sep="\n")
    limits = read_limits(LIMITS)
    if given.lower:
        write_limits(LIMITS, lowered(counts, limits))
    elif given.check:
        found = list(complaints(counts, limits))
        print(*found, sep="\n")
        print(f"{len(counts.all_smells()):,} smells, {len(found)} complaints")
        return int(bool(found))
    else:
        print(*report(counts), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
