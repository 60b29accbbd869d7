"""Changes to memory-mapped files are written to the file only if the mapping is shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastdist.system.file_memory import map_file


def test_writes_reach_the_file_only_where_it_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"abc")
    own, kept = (map_file(str(path), 3, shared=shared) for shared in (False, True))
    own[0] = ord("x")
    kept[1] = ord("y")
    assert path.read_bytes() == b"ayc"


def test_a_shared_file_is_made_as_long_as_its_memory(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    assert map_file(str(path), 5, shared=True).tolist() == [0] * 5
    assert path.stat().st_size == 5
    assert map_file(str(path), 0, shared=False).shape == (0,)


def test_what_cannot_be_mapped_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    with pytest.raises(RuntimeError, match="in read-only mode: No such file"):
        map_file(str(path), 1, shared=False)
    path.write_bytes(b"abc")
    with pytest.raises(RuntimeError, match="size <3> is smaller than the required mapping size"):
        map_file(str(path), 4, shared=False)
    with pytest.raises(RuntimeError, match="unable to mmap -1 bytes"):
        map_file(str(path), -1, shared=False)
