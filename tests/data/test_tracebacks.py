"""Errors of a DataLoader show the user's line and the dataset's lines, and none of fastdist."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

import fastdist as fd
from fastdist.core.folded_frames import OUR_FILES
from fastdist.utils.data import DataLoader


class Uneven:
    """Two samples of different sizes; `fails` makes the second one an error."""

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> fd.Tensor:
        return fd.ones(2) + fd.ones(3) if self.fails else fd.ones(index + 1)


def error_of(loader: DataLoader[Any]) -> Exception:
    with pytest.raises(RuntimeError) as caught:
        list(loader)
    return caught.value


def our_frames(error: Exception) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [one.filename for one in frames if one.filename.startswith(OUR_FILES)]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("fails", [False, True])
def test_errors_show_no_frame_of_ours(fails: bool, num_workers: int) -> None:
    error = error_of(DataLoader(Uneven(fails=fails), batch_size=2, num_workers=num_workers))  # type: ignore[arg-type]
    assert our_frames(error) == []
    assert "stack expects" in str(error) or fails
    if num_workers:
        assert f'File "{OUR_FILES[0]}' not in str(error)
        assert ("in __getitem__" in str(error)) is fails


@pytest.mark.parametrize("call", [len, iter])
def test_a_dataset_without_a_length_shows_no_frame_of_ours(call: Any) -> None:
    class Endless:
        def __getitem__(self, index: int) -> int:
            return index

    with pytest.raises(TypeError) as caught:
        list(call(DataLoader(Endless())))  # type: ignore[arg-type]
    assert our_frames(caught.value) == []
