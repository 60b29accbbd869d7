"""The 300 most used names document their arguments and results, and have an example that runs.

`documented_names.txt` lists them: the names of RPC, distributed autograd and process groups, and
the names that most of 24 packages and programs of PyTorch's ecosystem use.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import fastdist as torch
import fastdist.distributed as dist
import fastdist.distributed.autograd as dist_autograd
import fastdist.distributed.rpc as rpc
import fastdist.nn.functional as F
from fastdist import nn, optim

NAMES = Path(__file__).with_name("documented_names.txt").read_text().split()
# The names that examples use without an import; docs/site_pages.py lists them for readers.
GIVEN = {
    "torch": torch,
    "nn": nn,
    "F": F,
    "optim": optim,
    "dist": dist,
    "rpc": rpc,
    "dist_autograd": dist_autograd,
}
# Parameters that need no explanation, and classes whose objects users do not create.
UNSAID = {"self", "args", "kwargs"}
MADE_ELSEWHERE = {"dtype"}


@functools.cache
def object_of(name: str) -> Any:
    found: Any = torch
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(f"{found.__name__}.{part}")
    return found


def doc_of(name: str) -> str:
    return inspect.getdoc(object_of(name)) or ""


def parameters_of(name: str) -> set[str]:
    """Return the names of parameters that `help()` shows, except `*args` and `**kwargs`."""
    try:
        parameters = inspect.signature(object_of(name)).parameters.values()
    except ValueError:
        return set()
    unsaid = UNSAID | {"input"} if name.startswith("Tensor.") else UNSAID
    return {one.name for one in parameters if not one.name.startswith("_")} - unsaid


def test_three_hundred_names_are_listed_once() -> None:
    assert len(NAMES) == 300 and sorted(set(NAMES)) == NAMES
    assert len({id(object_of(name)) for name in NAMES}) == 300


@pytest.mark.parametrize("part", range(4))
def test_arguments_are_explained(part: int) -> None:
    silent = {}
    for name in NAMES[part::4]:
        said = set(re.findall(r"^    \*{0,2}(\w+): ", doc_of(name), re.MULTILINE))
        if name not in MADE_ELSEWHERE:
            silent[name] = parameters_of(name) - said
    assert {name: lacks for name, lacks in silent.items() if lacks} == {}


# An entry that repeats the name of the parameter, or says only what every argument is.
BARE = re.compile(r"^    \*{0,2}(\w+): ((?:The|A) \w+\.|Its arguments\.)\n(?! {8})", re.MULTILINE)


def test_entries_say_more_than_a_noun() -> None:
    bare = {name: BARE.findall(doc_of(name) + "\n") for name in NAMES}
    assert {name: some for name, some in bare.items() if some} == {}


# An entry says the meaning of None, or that the parameter has no effect.
NONE = re.compile(r"\bNone\b|\bdefault\b|\b[Ii]gnored\b")


def unexplained_nones(name: str) -> set[str]:
    """Return the parameters whose default is None, and whose entry does not say what that means."""
    try:
        parameters = inspect.signature(object_of(name)).parameters.values()
    except ValueError:
        return set()
    found = re.findall(
        r"^    \*{0,2}(\w+): (.*\n(?:        .*\n)*)", doc_of(name) + "\n", re.MULTILINE
    )
    entries = dict(found)
    nones = {one.name for one in parameters if one.default is None and one.name[0] != "_"}
    return {one for one in nones if not NONE.search(entries.get(one, ""))}


def test_a_default_of_none_is_explained() -> None:
    silent = {name: unexplained_nones(name) for name in NAMES}
    assert {name: some for name, some in silent.items() if some} == {}


def test_examples_show_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    examples = {name: doctest.DocTestParser().get_examples(doc_of(name)) for name in NAMES}
    assert [name for name, some in examples.items() if not some] == []
    # The first examples to run: they start and end the worker that the examples of other names
    # call.
    first = [name for name in NAMES if "rpc.init_rpc(" in doc_of(name)]
    wrong = [text for name in first if (text := printed_by(name, examples[name]))]
    place = f"file://{tmp_path}/store"
    options = rpc.TensorPipeRpcBackendOptions(init_method=place)
    rpc.init_rpc("worker0", rank=0, world_size=1, rpc_backend_options=options)
    try:
        others = [name for name in NAMES if name not in first]
        wrong += [text for name in others if (text := printed_by(name, examples[name]))]
    finally:
        rpc.shutdown()
    assert "".join(wrong) == ""


def printed_by(name: str, examples: list[doctest.Example]) -> str:
    """Run examples, and return the differences between their output and the docstring."""
    torch.manual_seed(0)
    test = doctest.DocTest(examples, dict(GIVEN), name, None, None, None)
    printed: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=printed.append)
    return "".join(printed)


def test_signatures_show_types() -> None:
    silent = {}
    for name in NAMES:
        with suppress(ValueError):  # Python's own classes have no signature
            parameters = inspect.signature(object_of(name)).parameters.values()
            open_ones = {one.name for one in parameters if one.annotation is one.empty}
            silent[name] = open_ones - {"self"}
    # clone takes the format of the memory too, which no declaration has.
    assert {name for name, lacks in silent.items() if lacks} == {"clone"}
