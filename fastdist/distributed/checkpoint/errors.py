"""The error for a checkpoint that cannot be written or read."""

from __future__ import annotations

from ...core.errors import FastdistError


class CheckpointException(FastdistError, RuntimeError):
    """A checkpoint that is damaged, lacks a requested value, or cannot be written."""
