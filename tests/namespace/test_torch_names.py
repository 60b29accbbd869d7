"""The claim that we know which of PyTorch's public names we lack, and that they grow fewer."""

from __future__ import annotations

import pytest

from bench.torch_names import ROOMS, lacking, read

LISTS = read()

# How many may be lacking at most: lower it with each name.
AT_MOST = 623


@pytest.mark.parametrize("path", ROOMS)
def test_the_list_of_lacking_names_is_right(path: str) -> None:
    assert lacking("fastdist", path, LISTS["names"][path]) == LISTS["lacking"][path], (
        "this list may only shrink: strike what is there now "
        "(python -m bench.torch_names lacking), and bring back what is gone"
    )


def test_names_that_we_lack_grow_fewer() -> None:
    assert sum(map(len, LISTS["lacking"].values())) <= AT_MOST
