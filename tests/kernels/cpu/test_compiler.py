"""The next process finds compiled kernels; if they cannot be stored, nothing fails."""

from __future__ import annotations

import errno
import os
import pickle
import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from fastdist.kernels.cpu.jit import compiler
from fastdist.kernels.cpu.jit.compiler import _CacheFile, _Places, _seal
from fastdist.system import own_folder
from tests.kernels.cpu.processes import ROOT, run_forked, run_script

SCRIPT = """
import numpy as np
from fastdist.kernels.cpu.pointwise.numba_pointwise import compile_loop
from fastdist.system.cache_directory import cache_directory
from fastdist.language.scalar import parse
body, dtype = parse("x * T(5)", ("x",)), np.dtype(np.float32)
loop = compile_loop(body.tree, body.names, [dtype], dtype)
print(loop.address != 0, loop.was_cached, cache_directory() is not None)
"""


def compile_in_a_process(cache: Path) -> str:
    return run_forked(SCRIPT, FASTDIST_CACHE_DIR=str(cache))


@pytest.mark.one_in(3)
def test_second_process_finds_the_kernel_and_a_torn_file_is_compiled_anew(tmp_path: Path) -> None:
    # Run two new processes, whose hashes and addresses differ.
    for told in ("True False True", "True True True"):
        assert run_script(SCRIPT, FASTDIST_CACHE_DIR=str(tmp_path)) == told
    for compiled in (tmp_path / "numba").glob("*.nbc"):
        compiled.write_bytes(compiled.read_bytes()[:100])
    assert compile_in_a_process(tmp_path) == "True False True"


# A closure over intrinsics and compiled functions, for which Numba creates a random name.
CLOSURES = """
import sys
import numpy as np
from fastdist.kernels.cpu.nn import windows
windows.largest(*[np.zeros((1, 4, 4), np.{dtype}) for _ in range(2)],
                np.zeros((1, 4, 4), np.int64), ((1, 1, 0, 1),) * 2)
print(int("numba" not in sys.modules))  # it was found
"""


@pytest.mark.one_in(3)
def test_second_process_finds_what_holds_intrinsics_and_not_its_like(tmp_path: Path) -> None:
    found = [
        run_script(CLOSURES.format(dtype=dtype), FASTDIST_CACHE_DIR=str(tmp_path))
        for dtype in ("float32", "float32", "int32")
    ]
    assert found == ["0", "1", "0"]


class Payload:
    """Code that an attacker has put into a pickle."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.trace), "w")


def plant(cache: Path, trace: Path) -> None:
    """Replace each index by one that runs code; anyone could give it such a valid seal."""
    content = pickle.dumps(Payload(trace))
    for index in (cache / "numba").glob("*.nbi"):
        with index.open("rb") as file:
            _version, (stamp, _names) = pickle.load(file), pickle.load(file)
        index.write_bytes(content + _seal(content, stamp))


def open_to_others(cache: Path) -> None:
    (cache / "numba").chmod(0o777)


def open_above(cache: Path) -> None:
    cache.chmod(0o777)


def of_another_user(cache: Path) -> None:
    for path in (cache / "numba", *(cache / "numba").iterdir()):
        os.chown(path, 65_534, 65_534)


def planted_while_it_was_open(cache: Path) -> None:
    for path in (cache / "numba").iterdir():
        os.chown(path, 65_534, 65_534)


AS_ROOT = [of_another_user, planted_while_it_was_open] if os.geteuid() == 0 else []


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "way", [open_to_others, open_above, *AS_ROOT], ids=lambda one: one.__name__
)
def test_an_index_that_another_user_could_have_planted_is_not_unpickled(
    tmp_path: Path, way: Callable[[Path], None]
) -> None:
    cache, trace = tmp_path / "cache", tmp_path / "trace"
    assert compile_in_a_process(cache) == "True False True"
    plant(cache, trace)
    way(cache)
    told = compile_in_a_process(cache)
    assert not trace.exists()
    assert told.startswith("True False")


@pytest.mark.one_in(3)
def test_a_planted_index_in_a_folder_of_ones_own_would_run(tmp_path: Path) -> None:
    # This is the control test: the owner of the folder keeps attackers out, but the seal does not.
    cache, trace = tmp_path / "cache", tmp_path / "trace"
    compile_in_a_process(cache)
    plant(cache, trace)
    compile_in_a_process(cache)
    assert trace.exists()


def test_files_of_another_user_are_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = _CacheFile(str(tmp_path), "loop", "stamp")
    cache.save("signature", ("code", b"code" * 50))
    assert cache.load("signature") == ("code", b"code" * 50)
    monkeypatch.setattr(os, "geteuid", lambda: 4_711)
    assert cache.load("signature") is None


def _with_a_hole(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[: middle - 16] + bytes(32) + content[middle + 16 :]


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "harm",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: bytes(len(content)),
        lambda content: random.Random(7).randbytes(len(content)),
        _with_a_hole,
    ],
    ids=["empty", "half", "short", "zeros", "random", "hole"],
)
def test_file_that_a_power_cut_tore_is_as_good_as_none_and_written_over(
    tmp_path: Path, kind: str, harm: Callable[[bytes], bytes]
) -> None:
    cache = _CacheFile(str(tmp_path), "loop", "stamp")
    cache.save("signature", ("code", b"code" * 50))
    [torn] = tmp_path.glob(f"*.{kind}")
    torn.write_bytes(harm(torn.read_bytes()))
    assert cache.load("signature") is None
    cache.save("signature", ("code", b"code" * 50))
    assert cache.load("signature") == ("code", b"code" * 50)


def test_two_processes_that_save_at_once_do_not_get_each_others_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = (_CacheFile(str(tmp_path), "loop", "stamp") for _ in range(2))
    save_data = ours._save_data

    def save_when_they_have_saved(name: str, data: object) -> None:
        theirs.save("float64", "their code")
        save_data(name, data)

    monkeypatch.setattr(theirs, "_load_index", dict)  # as if no index existed yet
    monkeypatch.setattr(ours, "_save_data", save_when_they_have_saved)
    ours.save("float32", "our code")
    monkeypatch.undo()
    assert [ours.load("float32"), ours.load("float64")] == [None, None]
    ours.save("float64", "their code")
    ours.save("float32", "our code")
    assert [theirs.load("float32"), theirs.load("float64")] == ["our code", "their code"]


def test_code_of_another_source_is_not_taken_where_its_data_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    _CacheFile(str(tmp_path), "loop", "old stamp").save("signature", "old code")
    cache = _CacheFile(str(tmp_path), "loop", "stamp")
    monkeypatch.setattr(cache, "_save_data", fail)
    with pytest.raises(OSError, match="No space"):
        cache.save("signature", "code")
    assert cache.load("signature") is None


class OfAnotherNumba:
    """A pickle that needs a module of another version of Numba."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return import_module, ("numba.core.types.of_another_numba",)


def test_what_another_numba_wrote_is_not_unpickled_though_the_new_index_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _CacheFile(str(tmp_path), "loop", "old stamp").save("signature", OfAnotherNumba())
    writer, reader = (_CacheFile(str(tmp_path), "loop", "stamp") for _ in range(2))
    save_data, found = writer._save_data, []

    def read_and_save(name: str, data: object) -> None:
        found.append(reader.load("signature"))
        save_data(name, data)

    monkeypatch.setattr(writer, "_save_data", read_and_save)
    writer.save("signature", "code")
    assert [*found, reader.load("signature")] == [None, "code"]


def test_what_another_numba_writes_over_a_file_that_is_being_read_is_not_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, other = (_CacheFile(str(tmp_path), "loop", stamp) for stamp in ("stamp", "another"))
    reader.save("signature", "code")
    looked_at, fstat = [], os.fstat

    def look_and_replace(file: int) -> os.stat_result:
        looked_at.append(file)
        if len(looked_at) == 2:  # the first file was the index
            other.save("signature", OfAnotherNumba())
        return fstat(file)

    monkeypatch.setattr(own_folder.os, "fstat", look_and_replace)
    assert reader.load("signature") == "code"
    assert reader.load("signature") is None


@pytest.mark.one_in(3)
def test_kernel_with_an_empty_index_is_compiled_and_found_again(tmp_path: Path) -> None:
    assert compile_in_a_process(tmp_path) == "True False True"
    for index in (tmp_path / "numba").glob("*.nbi"):
        index.write_bytes(b"")
    assert compile_in_a_process(tmp_path) == "True False True"
    assert compile_in_a_process(tmp_path) == "True True True"


@pytest.mark.one_in(3)
def test_kernel_is_compiled_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert compile_in_a_process(tmp_path / "file" / "cache") == "True False False"


@pytest.mark.one_in(3)
def test_nothing_is_written_beside_the_sources(tmp_path: Path) -> None:
    compile_in_a_process(tmp_path)
    assert list((tmp_path / "numba").glob("*.nbi"))
    assert not list((ROOT / "kernels").rglob("*.nb[ic]"))


@pytest.mark.parametrize("text", ["x * T(5)", "x * T(0.1)"])
def test_generated_source_names_its_body(text: str) -> None:
    import numpy as np

    from fastdist.kernels.cpu.pointwise.numba_pointwise import Source
    from fastdist.language.scalar import parse

    body, dtype = parse(text, ("x",)), np.dtype(np.float32)
    source = Source([body.tree], body.names, [dtype], dtype).text()
    assert source.startswith(f"# {body.tree!r}\n# x float32 -> float32\n")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the user's empty folder, and an image's folder with one kernel."""
    own, shipped = tmp_path / "own", tmp_path / "shipped"
    own.mkdir()
    shipped.mkdir()
    monkeypatch.setattr(compiler, "cache_directory", lambda _: own)
    monkeypatch.setattr(compiler, "shipped_directory", lambda _: shipped)
    _CacheFile(str(shipped), "loop", "stamp").save("signature", "shipped code")
    return own, shipped


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_was_shipped_is_found_and_what_is_new_is_kept_elsewhere(
    places: tuple[Path, Path],
) -> None:
    own, shipped = places
    before = contents(shipped)
    assert _Places("loop", "stamp").load("signature") == "shipped code"
    assert list(own.iterdir()) == []
    _Places("loop", "stamp").save("another", "own code")
    found = [_Places("loop", "stamp").load(key) for key in ("signature", "another")]
    assert found == ["shipped code", "own code"]
    assert contents(shipped) == before


def test_what_was_shipped_for_another_source_is_passed_over(places: tuple[Path, Path]) -> None:
    own, shipped = places
    before = contents(shipped)
    assert _Places("loop", "newer stamp").load("signature") is None
    _Places("loop", "newer stamp").save("signature", "newer code")
    assert _Places("loop", "newer stamp").load("signature") == "newer code"
    assert contents(shipped) == before
    assert contents(own)


@pytest.mark.one_in(3)
def test_what_was_shipped_serves_where_nothing_can_be_written(tmp_path: Path) -> None:
    shipped, nowhere = tmp_path / "shipped", tmp_path / "file"
    compile_in_a_process(shipped)
    nowhere.touch()
    before = contents(shipped / "numba")
    told = run_forked(
        SCRIPT,
        FASTDIST_CACHE_DIR=str(nowhere / "cache"),
        FASTDIST_SHIPPED_CACHE_DIR=str(shipped),
    )
    assert told == "True True False"
    assert contents(shipped / "numba") == before


@pytest.mark.one_in(3)
def test_what_others_could_have_put_there_is_not_read(tmp_path: Path) -> None:
    shipped, trace = tmp_path / "shipped", tmp_path / "trace"
    compile_in_a_process(shipped)
    plant(shipped, trace)
    (shipped / "numba").chmod(0o777)
    told = run_forked(
        SCRIPT, FASTDIST_CACHE_DIR=str(tmp_path / "own"), FASTDIST_SHIPPED_CACHE_DIR=str(shipped)
    )
    assert told == "True False True"
    assert not trace.exists()
