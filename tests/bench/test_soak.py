"""The soak reports growing resources, different weights and wrong replies."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from bench.distributed import soak
from bench.distributed.soak import SPARED, Held, Soak, flaws, quarters

MB = 1 << 20
FLAT = [Held(70 * MB + step % 3, 60, 12) for step in range(100)]


def found(**changes: Any) -> Soak:
    given: dict[str, Any] = {
        "kills": 25,
        "seconds": 600.0,
        "step": 1000,
        "weights": {"0.weight": np.ones(3)},
        "lives": {(SPARED, 0): FLAT, (0, 0): FLAT[:10], (0, 1): FLAT[10:]},
        "launcher": FLAT,
        "calls": Counter(answered=100, WorkerLostError=3),
        "wrong": [],
    }
    return Soak(**{**given, **changes})


def growing(memory: int = 0, files: int = 0, threads: int = 0) -> list[Held]:
    """Return samples of a process that grows by these amounts every tenth sample."""
    return [
        Held(70 * MB + n // 10 * memory, 60 + n // 10 * files, 12 + n // 10 * threads)
        for n in range(100)
    ]


def test_a_flat_soak_has_no_flaws() -> None:
    assert flaws(found(), found()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kills": 0}, "no worker was killed"),
        ({"wrong": ["call 7: another result"]}, "call 7: another result"),
        ({"calls": Counter(WorkerLostError=3)}, "no call was answered"),
        ({"weights": {"0.weight": np.array([1, 1, 2.0])}}, "weights differ .*: 0.weight"),
        ({"lives": {(SPARED, 0): FLAT, (SPARED, 1): FLAT}}, r"worker 2 was lost, .*\[0, 1\]"),
        ({"lives": {(SPARED, 0): growing(files=1)}}, r"worker 2: files grew from \d+ to \d+"),
        ({"launcher": growing(memory=MB)}, "launcher: resident grew from"),
        ({"launcher": growing(threads=1)}, "launcher: threads grew"),
    ],
)
def test_a_flaw_is_named(changes: dict[str, Any], words: str) -> None:
    (flaw,) = flaws(found(**changes), found())
    assert re.search(words, flaw), flaw


def test_the_first_quarter_does_not_count() -> None:
    early, late = quarters([Held(0, 0, 0)] * 24 + [Held(5, 6, 7)] * 72)
    assert early == late == Held(5, 6, 7)


@pytest.mark.slow
def test_a_short_soak_with_kills_ends_with_the_weights_of_a_run_without() -> None:
    with_kills, without = soak.soak_and_compare(20.0, 5.0)
    assert with_kills.kills >= 2
    # Ignore growth: server threads start one by one, and memory still grows in so short a run.
    assert [one for one in flaws(with_kills, without) if "grew from" not in one] == []
