"""The claim that we know which of PyTorch's public names we lack, and that they grow fewer."""

from __future__ import annotations

import pytest

import fastdist as fd
from bench.torch_names import ROOMS, lacking, read
from fastdist.namespace.names import MISSING_METHODS

LISTS = read()

# How many may be lacking at most: lower it with each name.
AT_MOST = 583


@pytest.mark.parametrize("path", ROOMS)
def test_the_list_of_lacking_names_is_right(path: str) -> None:
    assert lacking("fastdist", path, LISTS["names"][path]) == LISTS["lacking"][path], (
        "this list may only shrink: strike what is there now "
        "(python -m bench.torch_names lacking), and bring back what is gone"
    )


def test_names_that_we_lack_grow_fewer() -> None:
    assert sum(map(len, LISTS["lacking"].values())) <= AT_MOST


@pytest.mark.parametrize("name", sorted(MISSING_METHODS))
def test_a_method_that_is_not_there_says_why_as_the_function_does(name: str) -> None:
    for one in (fd.ones(2), fd.Tensor, fd.nn.Parameter(fd.ones(2))):
        assert not hasattr(one, name) and name not in dir(one)
    with pytest.raises(AttributeError) as error:
        getattr(fd.ones(2), name)
    said, why = str(error.value).split("; ", 1)
    assert said == f"'Tensor' object has no attribute {name!r}" and why != "None"
    if not hasattr(fd, name):
        with pytest.raises(AttributeError) as error:
            getattr(fd, name)
        assert str(error.value).endswith(why)
