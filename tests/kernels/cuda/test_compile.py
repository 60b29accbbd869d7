"""Every CUDA text compiles for the GPUs that we name, with NVIDIA's compiler and without a GPU."""

from __future__ import annotations

import pytest

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
