"""The manifest: the one small file whose coming makes a checkpoint be there."""

# Note [When a checkpoint is there] Each worker writes its file to the disk under a new name. When
# all have, the coordinator publishes the manifest, which names them, in one atomic step
# (system/atomic_file.py). Before it the folder holds no checkpoint, or the older one, whole; after
# it the new one, whole. Files that no manifest names are leftovers of a save that did not end.
#
# It is two lines: how long the second is, its checksum and what `latest` orders by; and what files
# there are, with all that they hold.

from __future__ import annotations

import json
import os
import re
import zlib
from typing import Any

from ...system.atomic_file import atomic_file
from .errors import CheckpointException
from .metadata import Metadata, merged

NAME = "manifest.json"
_FORMAT = "fastdist.checkpoint"
_VERSION = 1
_MOST_HEAD = 1 << 12
_HALF = re.compile(rf"\.{re.escape(NAME)}\.[0-9a-f]+\.tmp")


def is_half(name: str) -> bool:
    """Return whether a file is a manifest that was not finished."""
    return _HALF.fullmatch(name) is not None


def write_manifest(folder: str, metadata: Metadata) -> None:
    """Let the checkpoint be there: replace an older manifest in one step."""
    content = {"coordinator": metadata.coordinator, "files": metadata.rows}
    body = json.dumps(content, separators=(",", ":")).encode()
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "saved_at": metadata.saved_at,
        "bytes": len(body),
        "crc32": zlib.crc32(body),
    }
    content_bytes = json.dumps(head).encode() + b"\n" + body + b"\n"
    with atomic_file(os.path.join(folder, NAME), len(content_bytes)) as file:
        file.write(content_bytes)


def read_manifest(folder: str) -> Metadata:
    """Return the metadata of the checkpoint in a folder, from its manifest.

    Raises  CheckpointException where there is none, or a damaged one
    """
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            head = _head(file.readline(_MOST_HEAD), path)
            body = file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointException(
            f"there is no checkpoint in {folder!r}: it has no {NAME}, which is written last, when "
            "all workers have written their parts; latest(FOLDER) finds the newest whole one"
        ) from None
    if len(body) != head["bytes"] + 1 or zlib.crc32(body[:-1]) != head["crc32"]:
        raise _damaged(path, "its checksum does not match")
    try:
        content = json.loads(body, object_pairs_hook=_once)
        coordinator, rows = content["coordinator"], content["files"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, "it does not list its files") from error
    if not isinstance(coordinator, str) or not isinstance(rows, list):
        raise _damaged(path, "it does not list its files")
    return merged(rows, coordinator, head["saved_at"])


def saved_at(folder: str) -> int | None:
    """Return the sort key of the checkpoint in a folder; None if there seems to be none."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            found: int = _head(file.readline(_MOST_HEAD), path)["saved_at"]
    except (OSError, CheckpointException):
        return None
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict of what JSON says, which may say each thing once: readers differ on which of
    two is meant.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _head(line: bytes, path: str) -> dict[str, Any]:
    try:
        head = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it does not begin like a manifest") from error
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise _damaged(path, "it does not begin like a manifest")
    if head.get("version") != _VERSION:
        raise CheckpointException(
            f"the manifest {path!r} has version {head.get('version')!r}, and this fastdist reads "
            f"version {_VERSION}: use the newer one"
        )
    if any(type(head.get(word)) is not int for word in ("saved_at", "bytes", "crc32")):
        raise _damaged(path, "it does not begin like a manifest")
    return head


def _damaged(path: str, why: str) -> CheckpointException:
    return CheckpointException(
        f"the manifest {path!r} is damaged: {why}; load an older checkpoint: latest(FOLDER) finds "
        "the newest whole one"
    )
