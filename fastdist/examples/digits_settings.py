"""The command line of `fastdist demo`, read before any worker starts, and again by each."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

EPOCHS = 24


@dataclass(frozen=True)
class Settings:
    """What the command line may change."""

    epochs: int
    batch_size: int
    lr: float
    seed: int
    folder: Path


def parse_settings(arguments: Sequence[str] | None) -> Settings:
    """Read arguments; on a mistake print what was expected and exit with status 2."""
    parser = argparse.ArgumentParser(
        prog="fastdist demo",
        description="Train a small model whose layers live in three processes.",
    )
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.2, help="how far a step goes")
    parser.add_argument("--seed", type=int, default=0, help="of the split and the first weights")
    parser.add_argument("--out", type=Path, default=Path("fastdist-demo"), help="for the pictures")
    given = parser.parse_args(arguments)
    if given.epochs < 1 or given.batch_size < 1:
        parser.error("--epochs and --batch-size must be at least 1")
    return Settings(given.epochs, given.batch_size, given.lr, given.seed, given.out)
