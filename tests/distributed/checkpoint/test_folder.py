"""A checkpoint exists completely or not at all, and leftover files are removed."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist.distributed import checkpoint as dcp
from fastdist.distributed.checkpoint import manifest
from fastdist.distributed.checkpoint.folder import FolderLock


def save(folder: Path, number: float = 0.0, **options: Any) -> None:
    x = fastdist.full((100,), float(number))
    dcp.save({"x": x, "n": float(number)}, checkpoint_id=folder, **options)


def load(folder: str | os.PathLike[str] | None) -> float:
    assert folder is not None
    found = {"x": fastdist.zeros(100), "n": 0.0}
    dcp.load(found, checkpoint_id=folder)
    assert set(found["x"].tolist()) == {found["n"]}  # type: ignore[attr-defined]
    return found["n"]  # type: ignore[return-value]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    found = bytearray(path.read_bytes())
    found[found.index(fastdist.full((100,), 2.0).numpy().tobytes()) + 50] ^= 1
    path.write_bytes(bytes(found))


def part(folder: Path) -> Path:
    return next(folder.glob("*.pt"))


def test_the_newest_is_found_whatever_the_names_and_the_clock_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dcp.latest(tmp_path / "none") is None
    save(tmp_path / "z", 1)
    monkeypatch.setattr("time.time_ns", lambda: 1)
    save(tmp_path / "a", 2)
    save(tmp_path / "b", 3)
    assert dcp.latest(tmp_path) == str(tmp_path / "b")


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: cut(part(folder)),
        lambda folder: part(folder).unlink(),
        lambda folder: cut(folder / manifest.NAME),
        lambda folder: (folder / manifest.NAME).unlink(),
        lambda folder: (folder / manifest.NAME).write_text("{}\n{}"),
        lambda folder: (folder / manifest.NAME).write_text(""),
    ],
)
def test_a_torn_checkpoint_is_never_picked(harm: Callable[[Path], None], tmp_path: Path) -> None:
    save(tmp_path / "1", 1)
    save(tmp_path / "2", 2)
    harm(tmp_path / "2")
    assert load(dcp.latest(tmp_path)) == 1
    with pytest.raises(dcp.CheckpointException, match=r"latest\(FOLDER"):
        load(tmp_path / "2")


def test_a_bit_that_changed_is_found_and_the_older_checkpoint_taken(tmp_path: Path) -> None:
    save(tmp_path / "1", 1)
    save(tmp_path / "2", 2)
    flip(part(tmp_path / "2"))
    with pytest.raises(dcp.CheckpointException, match=r"is damaged.*some bits have changed"):
        load(tmp_path / "2")
    assert load(dcp.latest(tmp_path, verify=True)) == 1


def test_a_file_of_another_save_is_found_out(tmp_path: Path) -> None:
    save(tmp_path / "1", 1)
    save(tmp_path / "2", 2)
    shutil.copy(part(tmp_path / "1"), part(tmp_path / "2"))
    with pytest.raises(
        dcp.CheckpointException, match=r"is not the one that the manifest names|has"
    ):
        load(tmp_path / "2")


def test_a_second_save_replaces_the_first_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    save(tmp_path / "a", 1)
    save(tmp_path / "a", 2)
    assert load(tmp_path / "a") == 2
    assert len(names(tmp_path / "a")) == 2


def test_a_damaged_checkpoint_can_be_replaced(tmp_path: Path) -> None:
    save(tmp_path, 1)
    cut(tmp_path / manifest.NAME)
    save(tmp_path, 2)
    assert load(tmp_path) == 2
    assert len(names(tmp_path)) == 2


def test_overwriting_can_be_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    writer = dcp.FileSystemWriter(tmp_path, overwrite=False)
    with pytest.raises(dcp.CheckpointException, match=r"there is a checkpoint in .* already"):
        dcp.save({"n": 2}, storage_writer=writer)
    assert load(tmp_path) == 1


@pytest.mark.parametrize("overwrite", [None, True])
def test_what_another_worker_saved_is_replaced_only_on_demand(
    overwrite: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    saving = "fastdist.distributed.checkpoint.saving.own_name"
    monkeypatch.setattr(saving, lambda: (1, "another"))
    writer = dcp.FileSystemWriter(tmp_path, overwrite=overwrite)
    state = {"x": fastdist.full((100,), 2.0), "n": 2.0}
    if overwrite:
        dcp.save(state, storage_writer=writer)
    else:
        with pytest.raises(dcp.CheckpointException, match=r"saved by 'worker0', and this is 'anot"):
            dcp.save(state, storage_writer=writer)
    assert load(tmp_path) == (2 if overwrite else 1)


def test_a_folder_in_which_another_process_saves_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "0123456789abcdef-1.pt"
    theirs.write_bytes(b"half")
    with FolderLock(str(tmp_path)), pytest.raises(dcp.CheckpointException, match="is under way"):
        save(tmp_path)
    assert names(tmp_path) == [theirs.name]
    save(tmp_path, 3)
    assert not theirs.exists()
    assert load(tmp_path) == 3


def test_keep_removes_the_oldest_and_what_torn_saves_left(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / f"step-{number}", number)
    torn, foreign = tmp_path / "step-9", tmp_path / "notes"
    torn.mkdir()
    shutil.copy(part(tmp_path / "step-3"), torn)
    foreign.mkdir()
    (foreign / "mine.pt").write_text("not a checkpoint")
    (tmp_path / "step-0" / "log.txt").write_text("somebody else's")
    save(tmp_path / "step-4", 4, keep=2)
    assert names(tmp_path) == ["notes", "step-0", "step-3", "step-4"]
    assert names(tmp_path / "step-0") == ["log.txt"]
    assert names(foreign) == ["mine.pt"]
    assert load(dcp.latest(tmp_path)) == 4


def test_keep_leaves_a_neighbour_that_is_just_written(tmp_path: Path) -> None:
    save(tmp_path / "1", 1)
    (tmp_path / "1" / manifest.NAME).unlink()
    with FolderLock(str(tmp_path / "1")):
        save(tmp_path / "2", 2, keep=1)
        assert names(tmp_path) == ["1", "2"]
    save(tmp_path / "3", 3, keep=1)
    assert names(tmp_path) == ["3"]


def test_leftovers_of_a_killed_save_go_with_the_next_one_into_that_folder(tmp_path: Path) -> None:
    save(tmp_path, 1)
    old = part(tmp_path)
    (tmp_path / "0123456789abcdef-1.pt").write_bytes(b"half")
    (tmp_path / ".0123456789abcdef-1.pt.0123456789abcdef.tmp").write_bytes(b"half")
    save(tmp_path, 2)
    assert names(tmp_path) == sorted([part(tmp_path).name, manifest.NAME])
    assert not old.exists()


def test_an_old_checkpoint_that_cannot_go_does_not_take_the_new_one_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(f"no leave to remove {path}")

    save(tmp_path / "1", 1)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError, match="no leave to remove") as told:
        save(tmp_path / "2", 2, keep=1)
    monkeypatch.undo()
    assert "is complete, but older files could not be removed" in told.value.__notes__[0]
    assert load(dcp.latest(tmp_path, verify=True)) == 2


# ---- malicious manifests -------------------------------------------------------------------------


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest, and update its checksums."""
    head, body, _ = (folder / manifest.NAME).read_bytes().split(b"\n")
    content = json.loads(body)
    change(content)
    body = json.dumps(content).encode()
    told = {**json.loads(head), "bytes": len(body), "crc32": zlib.crc32(body)}
    (folder / manifest.NAME).write_bytes(json.dumps(told).encode() + b"\n" + body + b"\n")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["files"][0].update(name="../x.pt"),
        lambda content: content["files"][0].update(name="/etc/passwd"),
        lambda content: content["files"][0].update(bytes="1"),
        lambda content: content["files"][0]["entries"][0].__setitem__(3, [10**12]),
        lambda content: content["files"][0]["entries"][0].__setitem__(4, [-1]),
        lambda content: content["files"][0]["entries"][0].__setitem__(5, [50, 2]),
        lambda content: content["files"][0]["entries"][0].__setitem__(2, "complex256"),
        lambda content: content["files"][0]["entries"][0].__setitem__(6, 7),
        lambda content: content["files"][0]["entries"][0].__setitem__(1, [["list", "0"]]),
        lambda content: content["files"][0].update(entries=[["tensor"]]),
        lambda content: content["files"][0]["entries"].append(["value", ["a"] * 100_000, 1]),
        lambda content: content["files"][0]["entries"].append(
            ["tensor", ["y"], "float64", [10**15], [0], [10**15], 0, 1]
        ),
        lambda content: content.update(files={}),
        lambda content: content["files"].append(content["files"][0]),
    ],
)
def test_a_manifest_that_lies_is_refused(change: Any, tmp_path: Path) -> None:
    save(tmp_path, 1)
    rewritten(tmp_path, change)
    with pytest.raises(dcp.CheckpointException, match=r"damaged|have 100 of|lacks"):
        load(tmp_path)


def test_a_manifest_of_a_later_version_says_so(tmp_path: Path) -> None:
    save(tmp_path)
    path = tmp_path / manifest.NAME
    path.write_bytes(path.read_bytes().replace(b'"version": 1', b'"version": 2', 1))
    with pytest.raises(dcp.CheckpointException, match="has version 2, and this fastdist reads"):
        load(tmp_path)


def test_a_part_that_holds_code_is_not_run(tmp_path: Path) -> None:
    save(tmp_path, 1)
    path = part(tmp_path)
    with zipfile.ZipFile(path) as archive:
        stem = archive.namelist()[0].partition("/")[0]
        data = {info.filename: archive.read(info) for info in archive.infolist()}
    data[f"{stem}/data.pkl"] = b"cos\nmkdir\n(V" + str(tmp_path / "run").encode() + b"\ntR."
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in data.items():
            archive.writestr(name, content)
    size = path.stat().st_size
    rewritten(tmp_path, lambda content: content["files"][0].update(bytes=size))
    with pytest.raises(dcp.CheckpointException, match="damaged, or not of this save"):
        load(tmp_path)
    assert not (tmp_path / "run").exists()
