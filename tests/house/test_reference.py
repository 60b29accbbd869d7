"""The reference of the site has an entry for each name that users look up."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import fastdist
import fastdist.distributed as dist

ROOT = Path(__file__).resolve().parents[2]
NAMES = Path(__file__).with_name("documented_names.txt").read_text().split()
# Names of `distributed` that are no functions or classes of fastdist, or that only raise an error.
VALUES = {"GroupName", "PREEMPTED_EXIT_STATUS", "RankType", "default_pg_timeout"}
REFUSED = {
    *("BuiltinCommHookType", "Logger", "Reducer", "breakpoint", "record_comm", "shrink_group")
}


@functools.cache
def pages() -> dict[str, str]:
    """Return the texts of the pages of the reference."""
    place = ROOT / "docs/site_pages.py"
    spec = importlib.util.spec_from_file_location("site_pages", place)
    assert spec is not None and spec.loader is not None
    site_pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(site_pages)
    texts: dict[str, str] = site_pages.reference()
    return texts


@functools.cache
def named() -> set[str]:
    """Return the names of all entries, and the names in tables whose link leads to an entry, or to
    a member of a class that has an entry.
    """
    texts = pages()
    whole = "\n".join(texts.values())
    entries = set(re.findall("^::: (.+)$", whole, re.MULTILINE))
    found = set(re.findall("^      heading: (.+)$", whole, re.MULTILINE))
    for text in texts.values():
        title = text.partition("\n")[0].removeprefix("# ")
        for name, path in re.findall(r"^\| \[`(.+?)`\]\[(.+?)\] ", text, re.MULTILINE):
            if path in entries or path.rpartition(".")[0] in entries:
                found |= {name, f"{title}.{name}"}
    return found


def test_the_most_used_names_have_an_entry() -> None:
    # The entry of a class has its methods.
    assert [name for name in NAMES if not {name, name.removesuffix(".to")} & named()] == []


def test_all_methods_and_attributes_of_tensors_have_an_entry() -> None:
    names = [name for name in dir(fastdist.Tensor) if not name.startswith("_")]
    assert [name for name in names if f"Tensor.{name}" not in named()] == []


def test_entries_of_methods_name_the_class_that_defines_them() -> None:
    paths = re.findall("^::: (fastdist.tensor.+)$", pages()["tensor"], re.MULTILINE)
    methods = [path.rsplit(".", 2) for path in paths if path != "fastdist.tensor.tensor.Tensor"]
    assert len(methods) > 100
    homes = {home: importlib.import_module(home) for home, _, _ in methods}
    assert [name for home, of, name in methods if name not in vars(getattr(homes[home], of))] == []


def test_all_functions_and_classes_of_process_groups_have_an_entry() -> None:
    objects = {name: getattr(dist, name) for name in dir(dist)}
    names = {name for name, found in objects.items() if not isinstance(found, ModuleType)}
    assert {name for name in names if f"distributed.{name}" not in named()} == VALUES | REFUSED
    doc = {name: inspect.getdoc(objects[name]) or "" for name in REFUSED}
    assert [name for name in REFUSED if not re.match("Raise|Refuse", doc[name])] == []


def test_modules_of_their_own_have_a_page() -> None:
    names = {
        "distributed.store.TCPStore",
        "distributed.rendezvous.from_env",
        "distributed.elastic.multiprocessing.errors.record",
        "overrides.TorchFunctionMode",
        "library.custom_op",
        "fx.symbolic_trace",
        "optim.swa_utils.AveragedModel",
        "futures.wait_all",
        "utils.fold_tracebacks",
        "distributed.init_device_mesh",
        "distributed.rpc.functions.async_execution",
    }
    assert names - named() == set()


def test_less_than_in_a_summary_is_shown_without_a_backslash() -> None:
    (row,) = (line for line in pages()["tensor"].splitlines() if "[`Tensor.allclose`]" in line)
    assert "&lt;= atol" in row
