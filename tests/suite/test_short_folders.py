"""Paths of sockets fit into the tests' folders, wherever temporary files are stored."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from fastdist.distributed.sockets.addresses import private_base
from tests.short_folders import short_folder


@pytest.mark.parametrize("length", [0, 23, 24, 80])
def test_sockets_fit_into_a_short_folder(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as usual:
        temporary = Path(usual, "x" * length)  # `usual` has 17 characters
        temporary.mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        with short_folder() as path:
            monkeypatch.setenv("XDG_RUNTIME_DIR", path)
            assert private_base() == path
