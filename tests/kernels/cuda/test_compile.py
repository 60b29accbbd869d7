"""Every CUDA text compiles for the GPUs that we name, with NVIDIA's compiler and without a GPU."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fastdist.kernels.cuda import compile as compile_module
from fastdist.kernels.cuda.compile import ARCHITECTURES, compile_text
from tests.kernels.cuda.texts import KERNELS, texts

ELF = b"\x7fELF"


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", texts())
def test_text_compiles(name: str) -> None:
    for architecture in ARCHITECTURES:
        assert compile_text(texts()[name], architecture).startswith(ELF)


def test_every_cu_file_is_among_the_texts() -> None:
    everything = "\n".join(texts().values())
    for path in (*KERNELS.glob("*.cu"), *KERNELS.glob("*.cuh")):
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
