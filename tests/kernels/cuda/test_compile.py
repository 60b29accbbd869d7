"""Every CUDA source compiles for all supported GPUs, with NVIDIA's compiler and without a GPU."""

from __future__ import annotations

import importlib
import sys
import types
import warnings
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fastdist.kernels.cuda import compile as compile_module
from fastdist.kernels.cuda.compile import ARCHITECTURES, compile_text
from tests.fibre_shim import cupy as shim
from tests.kernels.cuda.registers import (
    Accesses,
    Cost,
    cost_of,
    measure_on,
    read_table,
    sample_architectures,
    what_became_worse,
)
from tests.kernels.cuda.texts import KERNELS, texts

ELF = b"\x7fELF"
AGAIN = "python -m tests.kernels.cuda.registers"


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", texts())
def test_text_compiles_and_costs_no_more_than_the_table_says(
    name: str, samples_alone: bool
) -> None:
    text, known = texts()[name], read_table().get(name)
    assert known is not None, f"a new text: {AGAIN} writes its row"
    chosen = sample_architectures(name, text, known) if samples_alone else ARCHITECTURES
    worse = {
        architecture: words
        for architecture, was in zip(ARCHITECTURES, known, strict=True)
        if architecture in chosen
        and (words := what_became_worse(was, measure_on(architecture, text)))
    }
    assert not worse, f"mend it, or, if it must be so, {AGAIN} --all writes it down"


@pytest.mark.nvrtc
def test_the_table_has_no_rows_of_texts_that_are_gone() -> None:
    assert sorted(read_table().keys() - texts().keys()) == [], f"{AGAIN} drops them"


WIDE = Cost(32, 0, 0, Accesses(16, 4), Accesses(4, 1))


def test_a_daily_run_takes_each_architecture_for_a_third_and_all_where_they_may_differ() -> None:
    table = read_table()
    chosen = {name: sample_architectures(name, texts()[name], table[name]) for name in texts()}
    alone = Counter(found[0] for found in chosen.values() if len(found) == 1)
    assert set(alone) == {*ARCHITECTURES} and min(alone.values()) > len(chosen) / 4
    framed = [name for name, costs in table.items() if any(cost.frame_bytes for cost in costs)]
    assert framed and all(chosen[name] == ARCHITECTURES for name in framed)
    assert sample_architectures("a text", "#if __CUDA_ARCH__ < 900", [WIDE]) == ARCHITECTURES
    assert sample_architectures("a text", "", [WIDE, WIDE._replace(registers=200)]) == ARCHITECTURES


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (WIDE, []),
        (WIDE._replace(registers=40, loads=Accesses(16, 2)), []),
        (WIDE._replace(registers=41), ["registers: 41, 32 before"]),
        (WIDE._replace(frame_bytes=8), ["locals in memory: 8 bytes, 0 before"]),
        (WIDE._replace(shared_bytes=4), ["shared memory: 4 bytes, 0 before"]),
        (WIDE._replace(loads=Accesses(4, 9)), ["widest loads: 9 of 4 bytes, 4 of 16 before"]),
        (WIDE._replace(loads=Accesses(16, 1)), ["widest loads: 1 of 16 bytes, 4 of 16 before"]),
        (WIDE._replace(stores=Accesses(0, 0)), ["widest stores: 0 of 0 bytes, 1 of 4 before"]),
    ],
)
def test_what_became_worse_is_told(now: Cost, words: list[str]) -> None:
    assert what_became_worse(WIDE, now) == words


LOCALS = """
extern "C" __global__ void packs(const float4* x, float4* out) {
    __shared__ float4 kept[32];
    kept[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = kept[31 - threadIdx.x];
}
extern "C" __global__ void locals(const int* x, unsigned char* out) {
    int kept[64];
    for (int i = 0; i < 64; ++i) kept[i] = x[i];
    for (int i = 0; i < x[64]; ++i) out[i] = kept[x[i + 65]];
}
"""


@pytest.mark.nvrtc
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_cost_is_read_from_the_machine_code(architecture: str) -> None:
    cost = cost_of(compile_text(LOCALS, architecture))
    # From sm_90 on, the system reserves 1,024 bytes of the shared memory of each block.
    system = 0 if architecture == "sm_80" else 1024
    assert (cost.frame_bytes, cost.shared_bytes) == (256, 512 + system)
    assert cost.loads.width_bytes == cost.stores.width_bytes == 16
    assert cost.stores.count == 1 and 8 <= cost.registers < 256


def test_every_cu_file_is_among_the_texts() -> None:
    everything = "\n".join(texts().values())
    for path in (*KERNELS.rglob("*.cu"), *KERNELS.rglob("*.cuh")):
        assert path.read_text("utf-8") in everything, path.name


@pytest.mark.nvrtc
def test_a_mistake_shows_the_compilers_words() -> None:
    from cupy.cuda.compiler import CompileException

    with pytest.raises(CompileException, match="missing"):
        compile_text('extern "C" __global__ void k() { missing(); }')


@pytest.mark.parametrize("compiler", [ModuleType("cupy.cuda.compiler"), None])
def test_cuda_core_compiles_where_cupys_own_class_is_gone(
    compiler: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    class Program:
        def __init__(self, *given: Any) -> None:
            asked.extend(given)

        def compile(self, kind: str) -> Any:
            asked.append(kind)
            return SimpleNamespace(code=ELF)

    core = SimpleNamespace(Program=Program, ProgramOptions=lambda **options: options)
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    for name in ("cupy", "cupy.cuda"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cupy.cuda.compiler", compiler)
    monkeypatch.setattr(compile_module, "header_options", lambda: ("-I/headers",))
    assert compile_text("text", "sm_80") == ELF
    options = {"std": "c++17", "arch": "sm_80", "include_path": ["/headers"], "name": "kernel.cu"}
    assert asked == ["text", "c++", options, "cubin"]


@pytest.mark.nvrtc
def test_the_stand_in_has_no_name_that_cupy_lacks() -> None:
    real = importlib.import_module("cupy")
    # Names of the shim that only the tests use.
    own = {"graph", "pending", "unfinished", "add_pending", "finish", "free_bytes", "num_given",
           "owner_of", "seen"}  # fmt: skip
    lacking: list[str] = []

    def compare(path: str, stand_in: Any, theirs: Any) -> None:
        for name, value in vars(stand_in).items():
            if name.startswith("_") or name in own:
                continue
            if not hasattr(theirs, name):
                lacking.append(f"{path}.{name}")
            elif isinstance(value, (types.SimpleNamespace, type)):
                compare(f"{path}.{name}", value, getattr(theirs, name))

    compare("cupy.cuda", shim.cuda, real.cuda)
    compare("cupy.ndarray", shim.ndarray, real.ndarray)
    assert lacking == []


@pytest.mark.nvrtc
def test_the_stand_in_of_nccl_has_the_names_and_parameters_of_cupys_bindings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignore warnings about the missing library
        real = importlib.import_module("cupy.cuda.nccl")
    if not real.available:
        # The bindings cannot be loaded without the library, so read the declarations from their
        # file.
        folder = Path(importlib.import_module("cupy_backends.cuda.libs").__path__[0])
        (file,) = folder.glob("nccl*.so")
        assert b"NcclCommunicator(int ndev, bytes commId, int rank" in file.read_bytes()
        return
    assert len(real.get_unique_id()) == 128 and type(real.get_unique_id()) is bytes
    for name in ("allReduce", "reduce", "broadcast", "reduceScatter", "allGather", "send", "recv"):
        assert hasattr(real.NcclCommunicator, name)
    for name, number in (("NCCL_BFLOAT16", 9), ("NCCL_FLOAT32", 7), ("NCCL_AVG", 4)):
        assert getattr(real, name) == number
