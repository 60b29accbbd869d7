"""Private names of PyTorch's serialization.py that other packages import."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

import fastdist
from fastdist import serialization


def test_names_that_a_file_may_not_load_are_listed_without_loading_it(tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    fastdist.save({"w": fastdist.ones(2), "kind": random.Random}, path)
    list_names = serialization.get_unsafe_globals_in_checkpoint
    assert list_names(path) == ["random.Random"]
    with serialization.safe_globals([random.Random]):
        assert list_names(path) == []
    with pytest.raises(ValueError, match="checkpoint returned by save"):
        list_names(io.BytesIO(b"text"))


def test_types_and_helpers_are_there() -> None:
    assert fastdist.device in serialization.MAP_LOCATION.__args__
    assert serialization._is_path("a") and not serialization._is_path(io.BytesIO())
    assert serialization._maybe_decode_ascii(b"a") == "a"
    assert not serialization._is_zipfile(io.BytesIO(b"text"))
    storage = fastdist.ones(1).untyped_storage()
    assert serialization._get_restore_location("cpu")(storage, "cuda:0") is storage
