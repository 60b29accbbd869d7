"""The command line of `fastdist demo`; the launcher parses it, and each worker parses it again."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastdist.launch.command_parser import CommandParser

_EPOCHS, _BATCH_SIZE, _LR = 24, 32, 0.3
_PROG = "fastdist demo"


@dataclass(frozen=True)
class Settings:
    """The settings of the command line."""

    epochs: int
    batch_size: int
    lr: float
    seed: int
    folder: Path

    @property
    def is_as_shipped(self) -> bool:
        """Return whether the limits on the results apply to these settings."""
        return self.epochs >= _EPOCHS and (self.batch_size, self.lr) == (_BATCH_SIZE, _LR)


def parse_settings(arguments: Sequence[str] | None) -> Settings:
    """Parse arguments; on a mistake print the usage and exit with status 2."""
    parser = CommandParser(
        _PROG,
        f"{_PROG} --epochs 3",
        description="Train a small model whose layers live in three processes. "
        f"`{_PROG} --list` shows the other demos, each started by its name.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--epochs", type=int, default=_EPOCHS, metavar="N", help="how often to see every digit")
    add("--batch-size", type=int, default=_BATCH_SIZE, metavar="N", help="digits a step")
    add("--lr", type=float, default=_LR, metavar="X", help="how far a step goes")
    add(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the split and of the first weights",
    )
    add("--out", type=Path, default=Path("fastdist-demo"), metavar="FOLDER", help="for pictures")
    given = parser.read(arguments)
    if given.epochs < 1 or given.batch_size < 1:
        parser.refuse(
            "--epochs and --batch-size must be at least 1, "
            f"got {given.epochs} and {given.batch_size}"
        )
    if not (given.lr > 0 and math.isfinite(given.lr)):
        parser.refuse(f"--lr must be more than 0, and finite, got {given.lr}")
    if not 0 <= given.seed < 2**63:
        parser.refuse(f"--seed must be 0 or more, and fit into 63 bits, got {given.seed}")
    return Settings(given.epochs, given.batch_size, given.lr, given.seed, given.out)


def make_folder(folder: Path) -> None:
    """Create the folder for the pictures before the training: a failure after the training would
    lose the result.

    Raises  SystemExit with a message if the folder is not writable
    """
    # tempfile is not used: it would load 0.3 MB of modules into each worker.
    probe = folder / f".fastdist-demo-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SystemExit(
            f"{_PROG}: no pictures can be written to {str(folder)!r}: {error.strerror}; "
            "name another folder with --out"
        ) from error
