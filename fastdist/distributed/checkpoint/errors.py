"""What a checkpoint that cannot be written or read is told as."""

from __future__ import annotations

from ...core.errors import FastdistError


class CheckpointException(FastdistError, RuntimeError):
    """A checkpoint that is damaged, lacks what was asked for, or cannot be written so."""
