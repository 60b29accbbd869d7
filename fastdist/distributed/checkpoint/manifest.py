"""The manifest: a small file whose appearance makes a checkpoint complete."""

# Note [When a checkpoint is there] Each worker writes its file to the disk under a new name. When
# all files are written, the coordinator publishes the manifest, which lists these files, in one
# atomic step (system/atomic_file.py). Before that step the folder contains no checkpoint, or a
# complete older one. After that step, it contains the complete new one. A file that is in no
# manifest was left by a save that did not end.
#
# The manifest has two lines. The first line has the length and the checksum of the second line, and
# the sort key for `latest`. The second line lists the files and their contents.

from __future__ import annotations

import json
import os
import re
import zlib
from typing import Any

from ...core.folded_frames import private_cause
from ...system.atomic_file import atomic_file
from .errors import CheckpointException
from .metadata import Metadata, merged

NAME = "manifest.json"
_FORMAT = "fastdist.checkpoint"
_VERSION = 1
_MOST_HEAD = 1 << 12
_HALF = re.compile(rf"\.{re.escape(NAME)}\.[0-9a-f]+\.tmp")


def is_half(name: str) -> bool:
    """Return whether a file is an unfinished manifest."""
    return _HALF.fullmatch(name) is not None


def write_manifest(folder: str, metadata: Metadata) -> None:
    """Publish the checkpoint, replacing an older manifest atomically."""
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

    Raises  CheckpointException if the manifest is missing or damaged
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
        raise _damaged(path, "it does not list its files") from private_cause(error)
    if not isinstance(coordinator, str) or not isinstance(rows, list):
        raise _damaged(path, "it does not list its files")
    return merged(rows, coordinator, head["saved_at"])


def saved_at(folder: str) -> int | None:
    """Return the sort key of the checkpoint in a folder; None if there is no valid manifest."""
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            found: int = _head(file.readline(_MOST_HEAD), path)["saved_at"]
    except (OSError, CheckpointException):
        return None
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict of JSON's key-value pairs; raise ValueError if a key occurs twice.

    JSON readers differ in which value of such a key they use.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _head(line: bytes, path: str) -> dict[str, Any]:
    try:
        head = json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it does not begin like a manifest") from private_cause(error)
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
