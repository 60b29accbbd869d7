"""Files of `save`: PyTorch's layout and names, shared memory stored once, and no partial files."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import pickle
import pickletools
import resource
import subprocess
import sys
import weakref
import zipfile
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.core import dtypes
from fastdist.serialization import saving


def saved(content: object) -> zipfile.ZipFile:
    stream = io.BytesIO()
    fastdist.save(content, stream)
    return zipfile.ZipFile(stream)


def test_the_archive_has_pytorchs_records_in_its_order_and_is_whole() -> None:
    archive = saved({"x": fastdist.arange(3.0)})
    assert archive.testzip() is None
    assert archive.namelist() == [
        f"archive/{name}"
        for name in (
            "data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "version",
            ".data/serialization_id",
        )
    ]  # fmt: skip
    assert archive.read("archive/version") == b"3\n"
    assert archive.read("archive/byteorder") == sys.byteorder.encode()
    assert len(archive.read("archive/.data/serialization_id")) == 40


def test_every_record_begins_at_a_multiple_of_64(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    fastdist.save([fastdist.ones(n) for n in range(20)], path)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        for record in archive.infolist():
            lengths = data[record.header_offset + 26 : record.header_offset + 30]
            name, extra = lengths[0] + 256 * lengths[1], lengths[2] + 256 * lengths[3]
            assert (record.header_offset + 30 + name + extra) % 64 == 0
            assert record.filename.startswith("state/")


def test_the_pickle_names_pytorchs_classes_alone() -> None:
    x = fastdist.ones(2)
    content = {
        "x": x, "p": nn.Parameter(x), "s": x.shape, "d": x.dtype, "dev": x.device, "u": x.storage(),
        "kinds": (nn.Parameter, fastdist.Tensor, fastdist.Size),
    }  # fmt: skip
    pickled = saved(content).read("archive/data.pkl")
    names = {given for op, given, _ in pickletools.genops(pickled) if op.name == "GLOBAL"}
    assert names == {
        "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter", "torch FloatStorage",
        "torch Size", "torch float32", "torch device", "collections OrderedDict",
        "torch.nn.parameter Parameter", "torch._tensor Tensor",
    }  # fmt: skip


def test_a_memory_is_written_once_and_whole() -> None:
    x = fastdist.arange(6.0)
    archive = saved([x[:2], x[4:], x.detach(), x.data, nn.Parameter(x[1:])])
    assert [name for name in archive.namelist() if "/data/" in name] == ["archive/data/0"]
    assert len(archive.read("archive/data/0")) == 24


def test_two_dtypes_over_one_memory_are_refused() -> None:
    x = fastdist.ones(2)
    with pytest.raises(RuntimeError, match="Cannot save multiple tensors or storages that view"):
        saved([x, x.view(fastdist.int32)])


def test_kinds_without_a_reducer_are_answered_with_the_default() -> None:
    """From Python 3.13 on, pickle passes a default and calls any other result of `get`."""
    table, default = saving._Reducers(str), object()
    assert table.get(dtypes.DType, default) is default
    assert table.get(int) is None
    assert table.get(fastdist.Tensor, default) is str


def test_what_pickle_refuses_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    fastdist.save(1, path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        fastdist.save(lambda: None, path)
    assert fastdist.load(path) == 1 and os.listdir(tmp_path) == ["x.pt"]


def test_places_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Parent directory .*nowhere does not exist\."):
        fastdist.save(1, tmp_path / "nowhere" / "x.pt")
    with pytest.raises(IsADirectoryError):
        fastdist.save(1, tmp_path)
    with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like obj"):
        fastdist.save(1, 3)


def test_a_pickle_module_of_the_users_knows_tensors(tmp_path: Path) -> None:
    x = fastdist.arange(3.0)
    fastdist.save({"x": x, "row": x[1:]}, tmp_path / "x.pt", pickle_module=_Compiled)
    found = fastdist.load(tmp_path / "x.pt", weights_only=False)
    found["x"][1] = 9.0
    assert found["row"].tolist() == [9.0, 2.0]


class _Compiled:
    """A pickle module whose Pickler is written in C."""

    Pickler = pickle.Pickler


class Tagged(fastdist.Tensor):
    """A subclass of Tensor with attributes."""


@pytest.mark.parametrize("pickle_module", [pickle, _Compiled])
def test_what_was_saved_is_kept_by_nobody(pickle_module: Any) -> None:
    x = fastdist.ones(3)
    memory = weakref.ref(x._array)
    was_enabled = gc.isenabled()
    gc.disable()  # the collector would hide a reference cycle by freeing it
    try:
        fastdist.save({"x": x}, io.BytesIO(), pickle_module=pickle_module)
        del x
        assert memory() is None
    finally:
        if was_enabled:
            gc.enable()


def test_kinds_of_tensors_and_attributes_come_back(tmp_path: Path) -> None:
    tagged = Tagged([1.0, 2.0])
    tagged.label = "a"  # type: ignore[attr-defined]
    parameter = nn.Parameter(fastdist.ones(1))
    parameter.lr = 0.5  # type: ignore[attr-defined]
    fastdist.save([tagged, parameter], tmp_path / "x.pt")
    with fastdist.serialization.safe_globals([Tagged]):
        one, two = fastdist.load(tmp_path / "x.pt")
    assert type(one) is Tagged and one.label == "a" and one.tolist() == [1.0, 2.0]
    assert type(two) is nn.Parameter and two.lr == 0.5


# The script is one process that forks. It has no other threads, so each fork is quick.
_KILLS = """
import os, random, signal, sys, threading
import fastdist

path, kills = sys.argv[1], int(sys.argv[2])
numbers = random.Random(0)
files = [{"w": fastdist.full((n,), float(n)), "n": n} for n in (30_000, 10_000)]
fastdist.save(files[0], path)
seen = set()
for kill in range(kills):
    child = os.fork()
    if not child:
        while True:
            kill += 1
            fastdist.save(files[kill % 2], path)
    threading.Event().wait(numbers.uniform(0.0, 0.015))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = fastdist.load(path)
    assert found["w"].shape == (found["n"],) and bool((found["w"] == float(found["n"])).all())
    seen.add(found["n"])
print(sorted(seen), len(os.listdir(os.path.dirname(path))))
"""


def test_kill_at_any_of_200_moments_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLS, str(tmp_path / "state.pt"), "200"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[10000, 30000] ")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("among", [False, True])
def test_a_tensor_of_any_dtype_comes_back_as_it_was(dtype: fastdist.dtype, among: bool) -> None:
    x = fastdist.tensor([0, 1, 3], dtype=dtype)
    stream = io.BytesIO()
    fastdist.save([x, x[1:], {"deeper": 1}] if among else x, stream)
    stream.seek(0)
    loaded = fastdist.load(stream)
    back = loaded[0] if among else loaded
    assert back.dtype is dtype and fastdist.equal(back, x)
    if among:
        assert loaded[1].tolist() == x.tolist()[1:]


WRITES = 40  # more writes than a file of state() takes


def state() -> dict[str, Any]:
    return {"x": fastdist.ones(3), "y": [fastdist.zeros(2, dtype=fastdist.int64), "text"]}


def interrupted(monkeypatch: pytest.MonkeyPatch, place: int, error: type[BaseException]) -> None:
    """Make one write of a save raise an error: the write with number `place`."""
    count = 0
    fdopen = os.fdopen

    class Failing:
        def __init__(self, file: Any) -> None:
            self._file = file

        def __enter__(self) -> Failing:
            self._file.__enter__()
            return self

        def __exit__(self, *raised: object) -> None:
            self._file.__exit__(*raised)

        def write(self, data: Any) -> None:
            nonlocal count
            count += 1
            if count == place:
                raise error
            self._file.write(data)

    monkeypatch.setattr(os, "fdopen", lambda *a, **k: Failing(fdopen(*a, **k)))


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_at_any_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException], is_zip: bool
) -> None:
    path = tmp_path / "x.pt"
    fastdist.save({"n": 1}, path)
    before = path.read_bytes()
    for place in range(1, WRITES):
        with pytest.MonkeyPatch.context() as patch:
            interrupted(patch, place, error)
            try:
                fastdist.save(state(), path, _use_new_zipfile_serialization=is_zip)
            except error:
                assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.pt"]
                continue
        break
    assert 5 < place < WRITES - 1
    assert fastdist.load(path)["x"].tolist() == [1.0] * 3


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_an_error_while_values_are_pickled_touches_nothing(
    tmp_path: Path, error: type[BaseException]
) -> None:
    class Fails:
        def __reduce__(self) -> Any:
            raise error

    path = tmp_path / "x.pt"
    fastdist.save({"n": 1}, path)
    with pytest.raises(error):
        fastdist.save([fastdist.ones(3), Fails()], path)
    assert fastdist.load(path) == {"n": 1} and os.listdir(tmp_path) == ["x.pt"]


def test_a_full_disk_is_told_with_the_path_and_the_size(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match=r"a file of 40[0-9]{3} bytes could") as caught:
            fastdist.save({"x": fastdist.ones(10_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(path) and os.listdir(tmp_path) == []


@pytest.mark.parametrize("buffering", [0, -1])
@pytest.mark.parametrize("with_zip", [True, False])
def test_a_full_disk_under_an_open_file_is_named_with_the_size(
    buffering: int, with_zip: bool
) -> None:
    values, options = fastdist.zeros(1000), {"_use_new_zipfile_serialization": with_zip}
    words = "a file of [0-9]{4} bytes could not be written: '/dev/full'"
    with pytest.raises(OSError, match=words):
        fastdist.save(values, "/dev/full", **options)
    file = open("/dev/full", "wb", buffering)  # noqa: SIM115
    try:
        with pytest.raises(OSError, match=words):
            fastdist.save(values, file, **options)
    finally:
        with contextlib.suppress(OSError):
            file.close()


def test_a_full_disk_under_a_writer_without_a_name_names_its_class() -> None:
    class Full:
        """A writer whose only method is write()."""

        def write(self, data: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="bytes could not be written: 'the Full'"):
        fastdist.save(fastdist.zeros(3), Full())
