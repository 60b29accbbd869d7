"""The pages of the site: those of the repository, and a reference that is made from docstrings.

MkDocs calls the functions that begin with `on_`. A page keeps the path that it has in the
repository, so links between pages are the same in both places.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import fastdist  # noqa: E402 (MkDocs runs outside of the root)
from fastdist import cli  # noqa: E402
from fastdist.dispatch.op import OPS as DECLARED  # noqa: E402

PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


class Room(NamedTuple):
    """A page of the reference: what it is called, and the modules whose names it has."""

    title: str
    modules: tuple[str, ...]
    text: str


# File of a page -> the room that it shows. The functions of `fastdist` itself are shown by the
# packages of `fastdist.ops` that declare them, Tensor's methods on the page of Tensor.
ROOMS = {
    "nn": Room("nn", ("nn",), "Layers, losses and containers: `from fastdist import nn`."),
    "nn.functional": Room(
        "nn.functional",
        ("nn.functional",),
        "Layers and losses as functions: `import fastdist.nn.functional as F`.",
    ),
    "nn.init": Room("nn.init", ("nn.init",), "Functions that fill parameters in place."),
    "nn.utils": Room(
        "nn.utils, nn.parallel",
        ("nn.utils", "nn.utils.rnn", "nn.utils.parametrize", "nn.parallel"),
        "Clipping, parametrizations, sequences of unequal lengths, data-parallel modules.",
    ),
    "optim": Room(
        "optim",
        ("optim", "optim.lr_scheduler", "optim.swa_utils"),
        "Optimizers, schedules of learning rates and averages: `from fastdist import optim`.",
    ),
    "autograd": Room(
        "autograd, func",
        ("autograd", "autograd.functional", "autograd.forward_ad", "func"),
        "Backward passes, forward mode, and derivatives as functions of functions.",
    ),
    "linalg": Room("linalg", ("linalg",), "Linear algebra."),
    "fft": Room("fft", ("fft",), "Fourier transforms."),
    "special": Room("special", ("special",), "Special functions."),
    "sparse": Room("sparse", ("sparse",), "Sparse tensors."),
    "distributions": Room("distributions", ("distributions",), "Random variables."),
    "data": Room("utils.data", ("utils.data",), "Data sets, samplers and loaders."),
    "amp": Room("amp", ("amp",), "Mixed precision."),
    "cuda": Room("cuda", ("cuda",), "GPUs, streams, events and captured graphs."),
    "overrides": Room(
        "overrides, library",
        ("overrides", "library"),
        "Classes that replace what functions do with their objects, and ops of your own.",
    ),
    "fx": Room("fx", ("fx",), "Recorded programs of modules, and changes to them."),
    "profiler": Room("profiler", ("profiler",), "Profiles of one process."),
    "utils": Room(
        "Utilities",
        (
            *("utils", "utils.checkpoint", "utils.dlpack", "utils.safetensors", "testing"),
            *("serialization", "random", "multiprocessing", "futures"),
        ),
        "Recomputation, comparison, saved files, generators, processes, Futures.",
    ),
    "rpc": Room(
        "distributed.rpc",
        ("distributed.rpc", "distributed.rpc.functions"),
        "Calls between workers: `import fastdist.distributed.rpc as rpc`.",
    ),
    "dist_autograd": Room(
        "distributed.autograd",
        ("distributed.autograd",),
        "Gradients across workers: `import fastdist.distributed.autograd as dist_autograd`.",
    ),
    "distributed": Room(
        "distributed",
        ("distributed", "distributed.device_mesh"),
        "Process groups and collectives: `import fastdist.distributed as dist`.",
    ),
    "distributed.store": Room(
        "distributed.store, .rendezvous",
        ("distributed.store", "distributed.rendezvous"),
        "How the workers of a job find each other; see also [Launching](../docs/launching.md).",
    ),
    "distributed.elastic": Room(
        "distributed.elastic",
        ("distributed.elastic.multiprocessing.errors",),
        "How a worker of `fastdist run` reports its error to the launcher.",
    ),
    "distributed.nn": Room(
        "distributed.nn, .optim",
        ("distributed.nn", "distributed.optim"),
        "Remote modules, collectives with gradients, and optimizers over several workers.",
    ),
    "distributed.checkpoint": Room(
        "distributed.checkpoint", ("distributed.checkpoint",), "Checkpoints of jobs."
    ),
    "distributed.monitor": Room(
        "distributed.monitor, .profiler",
        ("distributed.monitor", "distributed.profiler"),
        "What a running worker reports; see also [Metrics](../docs/metrics.md).",
    ),
    "integrations": Room(
        "integrations",
        ("integrations.ray", "integrations.dask"),
        "Workers in Ray and Dask; see also [Engines](../docs/engines.md).",
    ),
}
OPS = {
    "create": "Creating tensors",
    "random": "Random numbers",
    "pointwise": "Element by element",
    "reduce": "Reductions and sorting",
    "index": "Indexing",
    "shape": "Shapes, views and copies",
    "linalg": "Matrix products",
    "nn": "Functions for modules",
    "fft": "Spectra",
    "sparse": "Sparse tensors",
    "others": "Types, settings and everything else",
}
# Modules whose functions are declared by the stubs next to them.
WITH_STUBS = ("fastdist.nn.functional.", "fastdist.linalg.", "fastdist.fft.", "fastdist.special.")
IMPORTS = """import fastdist as torch
import fastdist.distributed as dist
import fastdist.distributed.autograd as dist_autograd
import fastdist.distributed.rpc as rpc
import fastdist.nn.functional as F
from fastdist import nn, optim"""
# Refusals, and older names; classes that no file writes out.
NO_ENTRY = ("Raise NotImplementedError", "Raise RuntimeError:", "Do what ")
MADE = {"BuiltinCommHookType", "Logger", "Reducer", "TensorType"}
# Classes whose methods are in the classes that they derive from.
SHOWS_BASES = {"ProcessGroup"}
COMMANDS = ("run", "top", "manifest", "as-torch", "demo", "info", "version")


# ---- the pages of the repository ----------------------------------------------------------------


def pages() -> list[Path]:
    """Return the pages of the repository that the site shows."""
    return [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]


def linked(page: Path) -> Iterator[Path]:
    """Yield the files, other than pages, to which a page links: they are served as they are."""
    for link in _LINK.findall(page.read_text()):
        path = (page.parent / link).resolve()
        if not link.startswith("https:") and path.suffix != ".md" and path.is_file():
            yield path


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the reference to the navigation, and to Guides those that it lacks."""
    listed = str(config.nav)
    for entry in config.nav or ():
        if "Guides" in entry:
            names = [page.relative_to(ROOT).as_posix() for page in pages()]
            entry["Guides"] += [name for name in names if f"'{name}'" not in listed]
        if entry.get("Reference") == "reference":
            entry["Reference"] = [
                "reference/index.md",
                {"Tensors": [{OPS[name]: f"reference/ops.{name}.md"} for name in OPS]},
                {"Tensor": "reference/tensor.md"},
                *({room.title: f"reference/{name}.md"} for name, room in ROOMS.items()),
                {"Commands": "reference/commands.md"},
            ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, the files to which they link, and the reference."""
    from mkdocs.structure.files import File

    found = pages()
    for path in {*found, *(file for page in found for file in linked(page))}:
        name = path.relative_to(ROOT).as_posix()
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    for name, text in reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


# ---- the reference ------------------------------------------------------------------------------


def reference() -> dict[str, str]:
    """Return the texts of the pages of the reference by their names."""
    by_room = functions_by_room()
    seen: set[str] = set()
    texts = {f"ops.{name}": _page(OPS[name], "", by_room[name], seen) for name in OPS}
    texts["tensor"] = _tensor(by_room)
    for name, room in ROOMS.items():
        shown = [one for module in room.modules for one in names_of(module)]
        texts[name] = _page(room.title, room.text, shown, seen)
    texts["commands"] = _commands()
    return texts | {"index": _index(texts)}


class Shown(NamedTuple):
    """A name on a page: as users write it, where Griffe finds it, and its object."""

    name: str
    path: str
    found: Any


def names_of(module: str) -> list[Shown]:
    """Return the public names of a module of fastdist, but for modules in it."""
    if module.startswith("integrations."):
        # They need the engine; Griffe reads them without it.
        return [Shown(module, f"fastdist.{module}", None)]
    room = importlib.import_module(f"fastdist.{module}")
    found = [(name, getattr(room, name, None)) for name in dir(room) if name[0] != "_"]
    if not hasattr(room, "__all__") and "__dir__" not in vars(room):
        # A file of functions: what it imports is not part of it.
        found = [pair for pair in found if getattr(pair[1], "__module__", "") == room.__name__]
    shown = [
        Shown(f"{module}.{name}", path_of(f"fastdist.{module}.{name}", one), one)
        for name, one in found
        if not isinstance(one, ModuleType) and one is not fastdist.Tensor and is_documented(one)
    ]
    # Functions first: in most packages users look for these.
    return sorted(shown, key=lambda one: inspect.isclass(one.found))


def path_of(public: str, found: Any) -> str:
    """Return the path by which Griffe finds a name: where its text is, else the public one, which
    a stub declares.
    """
    name, home = getattr(found, "__qualname__", ""), getattr(found, "__module__", None) or ""
    code = getattr(inspect.unwrap(found), "__code__", None)
    written = inspect.isclass(found) or (code is not None and not code.co_filename.startswith("<"))
    if not written or public.startswith(WITH_STUBS):
        return public
    return f"{home}.{name}" if getattr(sys.modules.get(home), name, None) is found else public


def is_documented(found: Any) -> bool:
    """Return whether a name has a docstring and does something, unlike a refusal."""
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        return False
    if not (getattr(found, "__module__", None) or "").startswith("fastdist"):
        return False
    if "<locals>" in getattr(found, "__qualname__", ""):
        return False
    doc = inspect.getdoc(found) or ""
    return bool(doc) and found.__name__ not in MADE and not doc.startswith(NO_ENTRY)


def functions_by_room() -> dict[str, list[Shown]]:
    """Return the names of `fastdist` itself by the packages that declare them."""
    rooms: dict[str, list[Shown]] = {name: [] for name in OPS}
    for name in fastdist.__all__:
        found = getattr(fastdist, name)
        if name.startswith("_") or found is fastdist.Tensor or not is_documented(found):
            continue
        op = DECLARED.get(name)
        declared = op.declared if op is not None and found is op.public else found
        code = getattr(inspect.unwrap(declared), "__code__", None)
        file = "" if code is None else code.co_filename
        place = re.search(r"fastdist/ops/(\w+)/(\w*)", file)
        room = place[1] if place else "others"
        if place and place[2].startswith("random"):
            room = "random"
        # A package has this name as well.
        path = "fastdist.ops.create.creation.tensor" if name == "tensor" else f"fastdist.{name}"
        if room == "others":
            path = path_of(path, found)
        rooms[room].append(Shown(name, path, found))
    return rooms


def summary(found: Any) -> str:
    """Return the first sentence of a docstring, as a cell of a table shows it."""
    text = (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ")
    parts = text.replace("|", "\\|").split("`")
    # Signs of markup are escaped outside of code. A backslash does not escape `<`.
    parts[::2] = [re.sub(r"([*\[\]])", r"\\\1", part).replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _page(title: str, text: str, shown: Iterable[Shown], seen: set[str]) -> str:
    shown = list(shown)
    # The title of a page names its only module.
    prefix = f"{title}."
    rows = [
        f"| [`{one.name.removeprefix(prefix)}`][{one.path}] | {summary(one.found)} |"
        for one in shown
    ]
    # A name that several modules offer has its entry on the first page.
    new = [one for one in shown if one.path not in seen]
    seen.update(one.path for one in new)
    table = _table("Name", "Summary", rows)
    entries = [_entry(one.path, one.name) for one in new]
    return f"# {title}\n\n{text}\n\n{table}\n\n" + "\n".join(entries)


def _entry(path: str, name: str, level: int = 2) -> str:
    """Return the lines for which mkdocstrings writes the entry of a name."""
    last = name.rpartition(".")[2]
    options = {"heading": name, "toc_label": last, "heading_level": level}
    if last in SHOWS_BASES:
        options["inherited_members"] = "true"
    lines = [f"      {option}: {value}\n" for option, value in options.items()]
    return f"::: {path}\n    options:\n{''.join(lines)}"


def _table(first: str, second: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {first} | {second} |", "|---|---|", *rows])


def _tensor(by_room: dict[str, list[Shown]]) -> str:
    """Return the page of Tensor: methods that are functions as well refer to these, and in-place
    methods to their twins.
    """
    functions = {one.name: one for shown in by_room.values() for one in shown}
    rows, entries = [], [_entry("fastdist.tensor.tensor.Tensor", "Tensor")]
    for name in dir(fastdist.Tensor):
        found = inspect.getattr_static(fastdist.Tensor, name)
        found = found.__func__ if isinstance(found, staticmethod | classmethod) else found
        function = functions.get(name) or functions.get(name.removesuffix("_"))
        if name.startswith("_") or not (doc := summary(found)):
            continue
        if function is not None and (name.endswith("_") or found is function.found):
            path = function.path
        elif name in vars(fastdist.Tensor):  # the entry of the class has it
            path = f"fastdist.tensor.tensor.Tensor.{getattr(found, '__name__', name)}"
        else:
            home = next(base for base in fastdist.Tensor.__mro__ if name in vars(base))
            path = f"{home.__module__}.{home.__qualname__}.{name}"
            entries.append(_entry(path, f"Tensor.{name}", level=3))
        rows.append(f"| [`Tensor.{name}`][{path}] | {doc} |")
    head = (
        "Methods and attributes. The link of a name that is a function as well leads to the "
        "function, and that of an in-place method to the one that returns a new tensor."
    )
    return f"# Tensor\n\n{head}\n\n{_table('Name', 'Summary', rows)}\n\n" + "\n".join(entries)


def _commands() -> str:
    """Return the page of the command line: what each command prints for `--help`."""
    parts = ["# Commands\n\nEach command prints this for `--help`.\n"]
    for name in COMMANDS:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            cli.main([name, "--help"])
        parts.append(f"## fastdist {name}\n\n```text\n{printed.getvalue().rstrip()}\n```\n")
    return "\n".join(parts)


def _index(texts: dict[str, str]) -> str:
    lines = []
    for name, text in texts.items():
        title = text.partition("\n")[0].removeprefix("# ")
        count = text.count("\n::: ") + text.startswith("::: ")
        about = ROOMS[name].text if name in ROOMS else ""
        lines.append(f"| [{title}]({name}.md) | {count or ''} | {about} |")
    table = "\n".join(["| Page | Names | |", "|---|---|---|", *lines])
    note = (
        "Written from the docstrings of this version; `help(fastdist.add)` prints the same. Many "
        "functions take NumPy's names of arguments as well: `axis` for `dim`, `keepdims` for "
        "`keepdim`. The examples begin with these lines, and those with `rpc` run on `worker0`:\n\n"
        f"```python\n{IMPORTS}\n```"
    )
    return f"# Reference\n\n{note}\n\n{table}\n"
