"""The list of PyTorch's public names that fastdist lacks is known and only shrinks."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fastdist as fd
from bench.torch_names import ROOMS, lacking, read
from fastdist.core.missing_modules import SAID
from fastdist.namespace.names import MISSING_METHODS

LISTS = read()

# The allowed number of missing names: lower it with each new name.
AT_MOST = 247


@pytest.mark.one_in(5)
@pytest.mark.parametrize("path", ROOMS)
def test_the_list_of_lacking_names_is_right(path: str) -> None:
    assert lacking("fastdist", path, LISTS["names"][path]) == LISTS["lacking"][path], (
        "this list may only shrink: strike what is there now "
        "(python -m bench.torch_names lacking), and bring back what is gone"
    )


def test_names_that_we_lack_grow_fewer() -> None:
    assert sum(map(len, LISTS["lacking"].values())) <= AT_MOST


PROGRAM = """
import fastdist as torch
for path in {paths!r}:
    found, said = torch, "is there"
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            said = str(error)
            break
    print(path, said, sep="\t")
"""
SAYS_NOTHING = ("; nearest in ", "; it has: ")


def test_each_module_that_import_torch_brings_is_here_as_well_or_says_why_not() -> None:
    # Run in a separate process, because other tests have imported modules into this process.
    program = PROGRAM.format(paths=LISTS["modules"][""])
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = dict(line.split("\t") for line in done.stdout.splitlines())
    assert list(said) == LISTS["modules"][""]
    dumb = [
        path
        for path, words in said.items()
        if words != "is there" and ("; " not in words or any(w in words for w in SAYS_NOTHING))
    ]
    assert dumb == [], "core/missing_modules.py says why, or load_later() has it"
    here = {f"fastdist.{path}" for path, words in said.items() if words == "is there"}
    assert set(SAID) <= {f"fastdist.{path}" for path in said} - here
    assert said["autograd.profiler"] == said["distributed.autograd"] == "is there"
    assert said["utils.collect_env"].endswith("; `fastdist info` shows what a machine has")


@pytest.mark.one_in(4)
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
