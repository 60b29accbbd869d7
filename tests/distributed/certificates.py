"""Certificates for tests, made as users make them: with pyzmq, one key pair for each member."""

from __future__ import annotations

import os
from pathlib import Path

import zmq.auth


def make_certificates(folder: Path, world_size: int) -> str:
    """Make the key pairs of the store and of `world_size` ranks, and return the folder's path."""
    folder.mkdir(exist_ok=True)
    os.chmod(folder, 0o700)
    for name in ("store", *(f"rank-{rank}" for rank in range(world_size))):
        _, secret = zmq.auth.create_certificates(folder, name)
        os.chmod(secret, 0o600)
        os.chmod(folder / f"{name}.key", 0o644)
    return str(folder)
