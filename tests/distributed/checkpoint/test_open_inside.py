"""A manifest may only name ordinary files in its folder, each once; other names are rejected."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist.distributed import checkpoint as dcp
from fastdist.distributed.checkpoint.manifest import NAME


def saved(folder: Path) -> str:
    """Save a checkpoint; return the name of its only file."""
    dcp.save({"x": fastdist.ones(3), "n": 2}, checkpoint_id=folder)
    (name,) = [one for one in os.listdir(folder) if one != NAME]
    return name


def rewrite(folder: Path, change: Any) -> None:
    """Apply `change` to the second line of a manifest, and write a matching checksum."""
    first, body, _ = (folder / NAME).read_bytes().split(b"\n")
    body = change(body)
    head = json.loads(first)
    head["bytes"], head["crc32"] = len(body), zlib.crc32(body)
    (folder / NAME).write_bytes(json.dumps(head).encode() + b"\n" + body + b"\n")


def load(folder: Path) -> list[float]:
    x = fastdist.zeros(3)
    dcp.load({"x": x, "n": 0}, checkpoint_id=folder)
    return x.tolist()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "name",
    [
        *("/etc/passwd", "../other/file.pt", "..", ".", "", "a/b.pt", "a\\b.pt", "C:a.pt"),
        *("a\0b.pt", ".hidden.pt", "\0", "./x.pt", "file:x"),
    ],
)
def test_names_that_leave_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a"
    own = saved(folder)
    rewrite(folder, lambda body: body.replace(own.encode(), json.dumps(name)[1:-1].encode()))
    with pytest.raises(dcp.CheckpointException, match="the manifest is damaged: it names a file"):
        load(folder)
    assert dcp.latest(tmp_path) is None


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "a", tmp_path / "elsewhere"
    own = saved(folder)
    os.rename(folder / own, elsewhere)
    (folder / own).symlink_to(elsewhere)
    with pytest.raises(dcp.CheckpointException, match=r"a link to .*elsewhere.*, outside of"):
        load(folder)
    assert dcp.latest(tmp_path) is None
    # Links that stay within the folder, or lead to the folder, are followed.
    (folder / own).unlink()
    os.rename(elsewhere, folder / "renamed")
    (folder / own).symlink_to("renamed")
    (tmp_path / "b").symlink_to("a")
    assert load(folder) == load(tmp_path / "b") == [1.0] * 3


def test_a_pipe_in_the_place_of_a_file_is_refused_not_waited_for(tmp_path: Path) -> None:
    own = saved(tmp_path)
    (tmp_path / own).unlink()
    os.mkfifo(tmp_path / own)
    with pytest.raises(dcp.CheckpointException, match="not an ordinary file"):
        load(tmp_path)


@pytest.mark.parametrize("word", ["files", "coordinator", "name", "bytes", "entries", "worker"])
def test_keys_that_are_there_twice_are_refused(tmp_path: Path, word: str) -> None:
    saved(tmp_path)
    key = f'"{word}":'.encode()
    rewrite(tmp_path, lambda body: body.replace(key, key + b"null," + key, 1))
    with pytest.raises(dcp.CheckpointException, match="it does not list its files"):
        load(tmp_path)


def test_files_that_are_named_twice_are_refused(tmp_path: Path) -> None:
    saved(tmp_path)

    def twice(body: bytes) -> bytes:
        content = json.loads(body)
        content["files"] *= 2
        return json.dumps(content).encode()

    rewrite(tmp_path, twice)
    with pytest.raises(dcp.CheckpointException, match="it names a file"):
        load(tmp_path)


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_in_the_middle_of_a_save_leaves_the_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    from fastdist.distributed.checkpoint import saving, shard_file

    saved(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    for module, name in ((shard_file, "save"), (saving, "write_manifest"), (saving, "merged")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, fail)
            with pytest.raises(error):
                dcp.save({"x": fastdist.zeros(3), "n": 5}, checkpoint_id=tmp_path)
        assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before
    assert load(tmp_path) == [1.0] * 3
