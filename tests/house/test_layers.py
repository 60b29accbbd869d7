"""Imports only point to lower layers. A room is a package or module with a row in `ROOMS`.

Every import counts, also inside functions and under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.test_sizes import parsed

ROOT = Path(__file__).resolve().parents[2]

# Each room, and the rooms directly below it. A room may also import what those rooms may import.
ROOMS: dict[str, set[str]] = {
    "core": set(),
    "instrumentation": {"core"},
    "system": {"core"},
    "concurrency": {"system"},
    "language": {"system"},
    "random_numbers": {"system"},
    "kernels": set(),
    "kernels.cpu": {"language", "random_numbers", "instrumentation"},
    "kernels.cuda": {"language", "random_numbers"},
    "as_torch": {"_functorch", "_ops"},
    "installation": {"as_torch", "system"},
    "futures": {"concurrency"},
    "multiprocessing": {"system"},
    "devices": {"kernels.cpu", "kernels.cuda", "concurrency", "instrumentation"},
    "tensor": {"devices"},
    "graph": {"tensor"},
    "interpreters": {"graph"},
    "dispatch": {"interpreters"},
    "ops": {"_ops", "dispatch"},
    "engine": {"graph"},
    "namespace": {"ops", "engine"},
    "profiler": {"graph"},
    "autograd": {"namespace", "profiler"},
    "nn": {
        "namespace",
        "autograd",
        "compiler",
        "distributed.algorithms.ddp_comm_hooks",
        "distributed.algorithms.join",
    },
    "func": {"nn"},
    "optim": {"nn"},
    "data": {"namespace"},
    "_utils": {"serialization"},
    "_tensor": {"serialization"},
    "_tensor_str": {"graph"},
    "__future__": {"core"},
    "functional": {"namespace"},
    "quasirandom": {"namespace"},
    "utils": {"autograd", "data", "hub", "optim"},
    "serialization": {"namespace"},
    "storage": {"tensor"},
    "amp": {"namespace"},
    "backends": {"core"},
    "cpu": {"amp"},
    "cuda": {"amp", "autograd"},
    "accelerator": {"cuda"},
    "compiler": {"core"},
    "_dynamo": {"compiler"},
    "_functorch": {"_C", "func", "utils"},
    "_inductor": {"compiler"},
    "_jit_internal": {"core"},
    "_ops": {"tensor"},
    "op_schemas": {"tensor"},
    "library": {"_ops", "autograd", "op_schemas"},
    "_subclasses": {"core"},
    "ao": {"core"},
    "export": {"core"},
    "quantization": {"ao"},
    "_custom_ops": {"library"},
    "fx": {"nn", "overrides"},
    "jit": {"compiler", "nn", "futures"},
    "hub": {"serialization"},
    "onnx": {"namespace"},
    "mps": {"core"},
    "mtia": {"core"},
    "xpu": {"core"},
    "version": {"core"},
    "torch_version": {"core"},
    "random": {"namespace"},
    "types": {"tensor"},
    "overrides": {"fft", "nn", "linalg", "special"},
    "_C": {"_utils", "nn"},
    "__config__": {"namespace"},
    "testing": {"namespace"},
    "signal": {"namespace"},
    "sparse": {"namespace"},
    "special": {"namespace"},
    "linalg": {"namespace"},
    "fft": {"namespace"},
    "distributions": {"namespace", "autograd"},
    "distributed.remote_device": {"core"},
    "distributed.sockets": {"concurrency"},
    "distributed.store": {"distributed.sockets"},
    "distributed.rendezvous": {"distributed.store"},
    "distributed.restarts": {"distributed.store"},
    "distributed.pipe": {"distributed.sockets"},
    "distributed.arena": {"distributed.pipe"},
    "distributed.rpc": {
        "distributed.arena",
        "distributed.rendezvous",
        "distributed.restarts",
        "tensor",
    },
    "distributed.nn": {
        "distributed.distributed_c10d",
        "distributed.remote_device",
        "distributed.rpc",
        "nn",
    },
    "distributed.autograd": {"distributed.rpc", "engine", "dispatch", "autograd"},
    "distributed.explain.clocks": {"instrumentation"},
    "distributed.explain": {"distributed.autograd", "distributed.explain.clocks"},
    "distributed.profiler": {"profiler", "distributed.rpc", "distributed.explain.clocks"},
    "distributed.rpc.torch_names.server_process_global_profiler": {
        "distributed.profiler",
        "autograd",
    },
    "distributed.zero_optimizer": {"optim", "distributed.data_parallel"},
    "distributed.algorithms.model_averaging": {"nn", "distributed.data_parallel"},
    "distributed.post_local_sgd_optimizer": {"optim", "distributed.algorithms.model_averaging"},
    "distributed.optim": {
        "distributed.autograd",
        "distributed.post_local_sgd_optimizer",
        "distributed.zero_optimizer",
    },
    "distributed.checkpoint": {"distributed.optim", "serialization"},
    "distributed.constants": {"core"},
    "distributed.process_group.transport": {"core"},
    "distributed.links": {
        "distributed.pipe",
        "distributed.process_group.transport",
        "distributed.rendezvous",
    },
    "distributed.process_group": {
        "distributed.constants",
        "distributed.links",
        "distributed.rpc",
        "ops",
    },
    "distributed.data_parallel": {"autograd", "distributed.process_group"},
    "distributed.monitor": {"distributed.process_group"},
    "distributed.preemption": {"distributed.process_group"},
    "distributed.distributed_c10d": {"distributed.constants", "distributed.data_parallel"},
    "distributed.device_mesh": {"distributed.distributed_c10d"},
    "distributed.c10d_logger": {"distributed.distributed_c10d"},
    "distributed.collective_utils": {"distributed.process_group"},
    "distributed.utils": {"nn", "distributed.data_parallel"},
    "distributed._functional_collectives": {"distributed.nn"},
    "distributed.tensor": {"core"},
    "distributed.elastic": {"core"},
    "distributed.fsdp": {"nn"},
    "distributed.algorithms.ddp_comm_hooks": {"distributed.data_parallel"},
    "distributed.algorithms.join": {"distributed.data_parallel"},
    "distributed.algorithms": {
        "distributed.algorithms.ddp_comm_hooks",
        "distributed.algorithms.join",
        "distributed.algorithms.model_averaging",
        "distributed.fsdp",
        "utils",
    },
    "distributed": {
        "distributed._functional_collectives",
        "distributed.algorithms",
        "distributed.c10d_logger",
        "distributed.collective_utils",
        "distributed.device_mesh",
        "distributed.utils",
        "distributed.elastic",
        "distributed.monitor",
        "distributed.preemption",
        "distributed.tensor",
        "distributed.nn",
        "distributed.checkpoint",
        "distributed.explain",
        "distributed.rpc.torch_names.server_process_global_profiler",
    },
}
# The top rooms may import anything; only they may import the root package.
TOP = {"", "__main__", "cli", "launch", "run", "info", "warm", "examples", "pythonpath.torch"}
TOP |= {"integrations"}
# The modules by which PyTorch's users start jobs.
TOP |= {"distributed.run", "distributed.launch"}

# A room and a module above it: the room offers a name of the module, imported on first access and
# for type checkers.
OFFERED_FROM_ABOVE = {("distributed.autograd", "distributed.explain.explanation")}

# Each third-party package, and the rooms or modules that may import it. Any module may import
# numpy.
THIRD_PARTIES = {
    "cupy": {"kernels.cuda", "devices.cuda"},
    "cupy_backends": {"kernels.cuda", "devices.cuda"},
    "numba": {"kernels.cpu"},
    "llvmlite": {"kernels.cpu"},
    "einops": {"utils.einops"},
    "safetensors": {"utils.safetensors"},
    "tensorboard": {"utils.tensorboard"},
    # Packages that tensorboard depends on, and matplotlib, with which users draw figures.
    "google": {"utils.tensorboard"},
    "PIL": {"utils.tensorboard"},
    "matplotlib": {"utils.tensorboard"},
    "prometheus_client": {"distributed.monitor.exposition"},
    "rich": {"launch.top", "launch.top_table"},
    "ray": {"integrations.ray"},
    "distributed": {"integrations.dask", "integrations.dask_groups"},
    "mpi4py": {"distributed.process_group.mpi_library"},
    "zmq": {"distributed.sockets", "distributed.pipe.transports", "distributed.store"},
}
ONLY_IN_BENCH = {"torch", "psutil"}


class Import(NamedTuple):
    file: str
    line: int
    importer: str  # a module, by its name inside fastdist; "" is the root package
    imported: str  # the absolute name of the module
    name: str  # including the name imported from the module, if any
    relative: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.name!r}"


@functools.cache
def modules() -> dict[str, Path]:
    """Return all modules by their names inside fastdist; kernels/ is fastdist.kernels."""
    paths = [*(ROOT / "fastdist").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]
    return {name_of(path): path for path in sorted(paths)}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "fastdist" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, name: str) -> Iterator[Import]:
    """Yield all imports of a file, including those in functions and under TYPE_CHECKING."""
    package = f"fastdist.{name}".rstrip(".").split(".")
    if path.name != "__init__.py":
        package.pop()
    file = str(path.relative_to(ROOT))
    for node in parsed()[path.relative_to(ROOT).as_posix()].imports:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, name, alias.name, alias.name, relative=False)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{stem}.{alias.name}"
                known = stem.startswith("fastdist") and whole[len("fastdist.") :] in modules()
                imported = whole if known else stem
                yield Import(file, node.lineno, name, imported, whole, bool(node.level))
        elif text := imported_by_call(node):
            yield Import(file, node.lineno, name, text, text, relative=False)


def imported_by_call(node: ast.Call) -> str | None:
    """Return the module name in a call of import_module or __import__, if it is a literal."""
    text = getattr(node.args[0], "value", None) if node.args else None
    return text if isinstance(text, str) else None


@functools.cache
def imports_of_the_package() -> list[Import]:
    return [found for name, path in modules().items() for found in imports_of(path, name)]


def room_of(module: str) -> str:
    """Return the innermost room that contains a module; "" for the root package."""
    while module and module not in ROOMS and module not in TOP:
        module = module.rpartition(".")[0]
    return module


@functools.cache
def below(room: str) -> frozenset[str]:
    """Return the room and all rooms that it may import."""
    return frozenset({room}).union(*(below(lower) for lower in ROOMS[room]))


def inside(imported: str) -> str | None:
    """Return the name inside fastdist, or None for a third-party package."""
    head, _, rest = imported.partition(".")
    return rest if head == "fastdist" else None


def listed(lines: list[str]) -> str:
    return "\n  ".join(["these break the rule:", *lines])


def test_every_module_is_in_a_room() -> None:
    # These two folders contain only rooms. Any other module directly inside would be in no room.
    halls = {"", "kernels", "distributed"}
    homeless = {name for name in modules() if room_of(name) in halls} - halls
    assert homeless == set(), "give each a row in ROOMS, and one in CONTRIBUTING.md"


def test_every_room_exists_and_stands_in_the_table_of_contributing() -> None:
    halls = {"kernels", "distributed"}
    assert {room for room in {*ROOMS, *TOP} if room not in modules()} == set()
    assert rooms_of_the_table() == (ROOMS.keys() | TOP) - halls - {"", "__main__"}


def rooms_of_the_table() -> set[str]:
    """Return the rooms that the table of CONTRIBUTING.md names, by their names inside fastdist."""
    lines = (ROOT / "CONTRIBUTING.md").read_text().split("| room | may import |\n", 1)[1]
    cells = [line.split("|")[1] for line in lines.split("\n\n", 1)[0].splitlines()[1:]]
    names = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    return {name.removesuffix(".py").replace("/", ".") for name in names} - {"bench", "tests"}


def test_imports_point_down() -> None:
    wrong = [
        f"{found}: room {room!r} may not"
        for found in imports_of_the_package()
        if (target := inside(found.imported)) is not None
        and (room := room_of(found.importer)) not in TOP
        and room_of(target) not in below(room)
        and (found.importer, target) not in OFFERED_FROM_ABOVE
    ]
    assert not wrong, listed(wrong)


# The packages of ops, lowest first: each may import the packages before it. All of them share the
# files next to them, except complex_forms, which implements complex ops with ops of all packages.
OPS_PACKAGES = (
    "create", "shape", "index", "pointwise", "reduce", "sparse", "linalg", "nn", "fft",
)  # fmt: skip


def test_the_packages_of_ops_form_a_tower() -> None:
    wrong = []
    for found in imports_of_the_package():
        target = package_of_ops(inside(found.imported))
        importer = package_of_ops(found.importer)
        if not target or importer is None or found.importer == "ops.complex_forms":
            continue
        if OPS_PACKAGES.index(target) > (OPS_PACKAGES.index(importer) if importer else -1):
            wrong.append(str(found))
    assert not wrong, listed(wrong)


def package_of_ops(module: str | None) -> str | None:
    """Return the package of ops that contains a module, "" for a file next to them, or None."""
    head, _, rest = (module or "").partition("ops.")
    if head or not rest:
        return None
    name = rest.partition(".")[0]
    return name if name in OPS_PACKAGES else ""


# The layers of distributed/rpc, lowest first: folders, and the agent, which uses all of them. Other
# files may be at any layer that their imports allow.
RPC_FLOORS = ("message", "workers", "calls", "references", "agent")
# Packages of rpc whose files belong to several layers, so each file counts separately.
RPC_MIXED = ("gpu_transport", "torch_names")


def test_the_folders_of_rpc_stand_on_each_other() -> None:
    edges = edges_of_rpc()
    assert not circles(edges)
    for number, floor in enumerate(RPC_FLOORS):
        reached = reached_from(floor, edges)
        assert reached.isdisjoint(RPC_FLOORS[number + 1 :]), f"{floor} reaches {sorted(reached)}"


def edges_of_rpc() -> dict[str, set[str]]:
    """Return, for each part of distributed/rpc (a folder or file), the parts that it imports."""
    edges: dict[str, set[str]] = {}
    for found in imports_of_the_package():
        importer, target = (part_of_rpc(name) for name in (found.importer, inside(found.imported)))
        if importer and target and importer != target:
            edges.setdefault(importer, set()).add(target)
            edges.setdefault(target, set())
    return edges


def part_of_rpc(module: str | None) -> str:
    """Return the folder or file of distributed/rpc that contains a module, or "" for others."""
    head, _, rest = (module or "").partition("distributed.rpc.")
    part = rest.partition(".")[0]
    return "" if head else rest if part in RPC_MIXED else part


def reached_from(start: str, edges: dict[str, set[str]]) -> set[str]:
    reached, ahead = set[str](), [start]
    while ahead:
        new = edges[ahead.pop()] - reached
        reached |= new
        ahead.extend(new)
    return reached


def test_no_modules_import_each_other() -> None:
    edges: dict[str, set[str]] = {name: set() for name in modules()}
    for found in imports_of_the_package():
        target = inside(found.imported)
        if target in edges and target != found.importer and found.importer:
            edges[found.importer].add(target)
    found_circles = circles(edges)
    assert not found_circles, listed(found_circles)


def circles(edges: dict[str, set[str]]) -> list[str]:
    """Return one line for each import cycle."""
    found: list[str] = []
    done: set[str] = set()

    def walk(name: str, way: tuple[str, ...]) -> None:
        if name in way:
            found.append(" -> ".join([*way[way.index(name) :], name]))
        elif name not in done:
            for target in sorted(edges[name]):
                walk(target, (*way, name))
            done.add(name)

    for name in edges:
        walk(name, ())
    return found


def test_third_parties_stay_in_their_rooms() -> None:
    wrong = [
        str(found)
        for found in imports_of_the_package()
        if (head := found.imported.partition(".")[0]) in THIRD_PARTIES.keys() | ONLY_IN_BENCH
        and not any(
            f"{found.importer}.".startswith(f"{room}.") for room in THIRD_PARTIES.get(head, ())
        )
    ]
    assert not wrong, listed(wrong)


def test_kernels_import_each_other_relatively_and_never_as_kernels() -> None:
    wrong = [
        str(found)
        for found in imports_of_the_package()
        if found.imported.startswith("kernels")
        or (
            found.importer.startswith("kernels.")
            and found.imported.startswith("fastdist.kernels")
            and not found.relative
        )
    ]
    assert not wrong, listed(wrong)


@pytest.mark.parametrize("folder", ["tests", "bench"])
def test_tests_and_bench_keep_to_what_they_may_import(folder: str) -> None:
    """Tests and benchmarks import `fastdist.kernels`, never `kernels`.

    bench does not import private names. Tests do not import torch, except in tests/interop, and in
    tests/types and tests/packages, where torch is fastdist.
    """
    wrong = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for found in imports_of(path, ""):
            head = found.imported.partition(".")[0]
            rooms = [ROOT / "tests" / room for room in ("interop", "packages", "types")]
            meets_others = any(path.is_relative_to(room) for room in rooms)
            too_much = head in ONLY_IN_BENCH if folder == "tests" else is_private(found)
            too_much = too_much and not meets_others
            if head == "kernels" or too_much:
                wrong.append(str(found))
    assert not wrong, listed(wrong)


def test_what_stands_on_top_uses_public_names() -> None:
    tops = [found for found in imports_of_the_package() if room_of(found.importer) in TOP - {""}]
    assert [str(found) for found in tops if is_private(found)] == []


def is_private(found: Import) -> bool:
    """Return whether a name imported from another room begins with one underscore."""
    own = found.name.startswith(f"fastdist.{room_of(found.importer) or '-'}.")
    return inside(found.name) is not None and not own and bool(re.search(r"\._(?!_)", found.name))


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b -> c -> b"]
