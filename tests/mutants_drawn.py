"""Mutants with their files, and a random draw of them, for tests.mutate."""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import Break, is_another_program


@dataclass(frozen=True)
class Mutant:
    """A change of one file, with the text before and after."""

    file: str
    change: Break
    old: str
    new: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The fields by which an explanation identifies this mutant."""
        return self.file, self.change.within, self.old, self.new

    def describe(self) -> str:
        """Return where the mutant is, and its change."""
        where = f"{self.file}:{self.change.first} in {self.change.within or 'the module'}"
        return f"{where} ({self.change.kind})\n    - {self.old}\n    + {self.new}"


def draw(root: Path, mutants: Sequence[Mutant], number: int, seed: int) -> list[Mutant]:
    """Return a random draw of mutants, which depends only on the seed and the mutants.

    Mutants are ordered by a hash of seed and change, so a change elsewhere does not alter the draw.
    """
    order: dict[bytes, Mutant] = {}
    likes = Counter[tuple[str, ...]]()
    for mutant in mutants:
        likes[mutant.key] += 1
        name = repr((seed, *mutant.key, likes[mutant.key]))
        order[hashlib.sha256(name.encode()).digest()] = mutant
    drawn: list[Mutant] = []
    for _, mutant in sorted(order.items()):
        if len(drawn) == number:
            break
        source = (root / mutant.file).read_bytes()
        is_python = mutant.file.endswith(".py")
        if not is_python or is_another_program(source, mutant.change.of(source)):
            drawn.append(mutant)
    return drawn


def explanations(path: Path, room: str) -> dict[tuple[str, str, str, str], str]:
    """Return the recorded reasons why mutants of a room may survive, by the key of each mutant."""
    entries = tomllib.loads(path.read_text()).get(room, [])
    return {(one["file"], one["within"], one["old"], one["new"]): one["why"] for one in entries}
