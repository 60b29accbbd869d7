"""The fibres run correct kernels, and detect errors in wrong ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fibre_shim import driver
from tests.fibre_shim.driver import SEEDS, KernelError, run_text

REVERSE = """
extern "C" __global__ void reverse(int* x) {{
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    {barrier}
    x[threadIdx.x] = tile[63 - threadIdx.x];
}}
"""


def reverse(barrier: str, seed: int) -> np.ndarray:
    x = np.arange(64, dtype=np.int32)
    run_text(REVERSE.format(barrier=barrier), "reverse", (1,), (64,), [x], seed=seed)
    return x


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_of_a_block_exchange_through_shared_memory(seed: int) -> None:
    assert reverse("__syncthreads();", seed).tolist() == list(range(63, -1, -1))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("too_little", ["", "__syncwarp();"])
def test_a_missing_barrier_gives_a_wrong_result(too_little: str, seed: int) -> None:
    assert reverse(too_little, seed).tolist() != list(range(63, -1, -1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_barrier_that_some_threads_never_reach_is_an_error(seed: int) -> None:
    with pytest.raises(KernelError, match="divergent barrier in block 0: 40 returned; 24 wait at"):
        reverse("if (threadIdx.x >= 24) return; __syncthreads();", seed)


def test_threads_that_wait_at_different_barriers_are_an_error() -> None:
    apart = "if (threadIdx.x < 32) __syncthreads();\n else __syncthreads();"
    with pytest.raises(KernelError, match=r"32 wait at line .*; 32 wait at line"):
        reverse(apart, 0)


def test_a_warp_barrier_without_a_lane_that_it_names_is_an_error() -> None:
    with pytest.raises(KernelError, match=r"2 wait at line .*; 62 wait in their warp at line"):
        reverse("if (threadIdx.x % 32) __syncwarp();\n __syncthreads();", 0)


def test_shared_memory_begins_as_a_pattern_in_every_block() -> None:
    source = """
    extern "C" __global__ void peek(double* x) {
        __shared__ double tile[1];
        x[blockIdx.x] = tile[0];
        tile[0] = 1;
    }
    """
    x = np.zeros(3)
    run_text(source, "peek", (3,), (1,), [x])
    assert np.isnan(x).all()


def test_a_write_past_dynamic_shared_memory_is_an_error() -> None:
    source = """
    extern "C" __global__ void spill(int n) {
        static_cast<unsigned char*>(fibres::dynamic_shared())[n] = 1;
    }
    """
    run_text(source, "spill", (1,), (1,), [np.int32(15)], shared_bytes=16)
    with pytest.raises(KernelError, match="past the end of dynamic shared memory"):
        run_text(source, "spill", (1,), (1,), [np.int32(16)], shared_bytes=16)


SHUFFLES = """
extern "C" __global__ void shuffles(double* x) {
    const unsigned int all = 0xffffffffu;
    double* row = x + blockIdx.x * 160 + threadIdx.x;
    const double v = threadIdx.x + blockIdx.x;
    row[0] = __shfl_down_sync(all, v, 3);
    row[32] = __shfl_up_sync(all, v, 3, 8);
    row[64] = __shfl_xor_sync(all, v, 5);
    row[96] = __shfl_sync(all, v, 2, 16);
    // Two halves of a warp shuffle on their own, one more often than the other.
    double w = v;
    if (threadIdx.x < 16)
        for (int i = 0; i < 3; ++i) w = __shfl_down_sync(0x0000ffffu, w, 1, 16);
    else
        w = __shfl_down_sync(0xffff0000u, w, 1, 16);
    row[128] = __shfl_xor_sync(all, w, 16);
}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_shuffles_hand_over_what_cuda_documents(seed: int) -> None:
    x = np.full((2, 5, 32), np.nan)
    run_text(SHUFFLES, "shuffles", (2,), (32,), [x], seed=seed)
    lane = np.arange(32)
    down = np.where(lane + 3 < 32, lane + 3, lane)
    up = np.where(lane % 8 >= 3, lane - 3, lane)
    halves = np.where(
        lane < 16, np.minimum(lane + 3, 15), np.where(lane % 16 == 15, lane, lane + 1)
    )
    expected = np.stack([down, up, lane ^ 5, lane // 16 * 16 + 2, halves[lane ^ 16]])
    assert (x == np.stack([expected, expected + 1])).all()


def test_a_compiler_is_asked_for_its_version_again_if_its_file_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, told = tmp_path / "g++", []
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(driver, "_CACHE", tmp_path / "cache")
    for version in ("one", "the second"):
        program.write_text(f"#!/bin/sh\necho {version}\necho asked >> {tmp_path}/asked\n")
        program.chmod(0o700)
        told += [driver._compiler.__wrapped__() for _ in range(2)]
    assert told == ["one\n"] * 2 + ["the second\n"] * 2
    assert (tmp_path / "asked").read_text() == "asked\n" * 2


def test_a_text_that_does_not_compile_shows_the_compilers_words() -> None:
    with pytest.raises(RuntimeError, match=r"g\+\+ refuses the text:(?s:.*)missing"):
        run_text('extern "C" __global__ void k() { missing(); }', "k", (1,), (1,), [])


def test_a_launch_with_other_arguments_than_the_kernel_has_is_an_error() -> None:
    source = 'extern "C" __global__ void k(int* x, int n) { x[0] = n; }'
    with pytest.raises(KernelError, match="k has 2 parameters, and was given 1 arguments"):
        run_text(source, "k", (1,), (1,), [np.zeros(1, np.int32)])


def test_kernels_of_one_text_are_compiled_once() -> None:
    source = """
    extern "C" __global__ void __launch_bounds__(32) one(int* x) { x[0] += 1; }
    extern "C" __global__ void two(int* x, long long by) { x[0] += by; }
    """
    x = np.zeros(1, np.int32)
    run_text(source, "one", (1,), (1,), [x])
    before = driver._library.cache_info().misses
    run_text(source, "two", (1,), (1,), [x, np.int64(5)])
    assert x[0] == 6 and driver._library.cache_info().misses == before


BESIDE = """
extern "C" __global__ void beside(float* x, float* y, int n) {
    x[threadIdx.x] += 1;
    if (threadIdx.x == 0) TOUCH;
}
"""


@pytest.mark.parametrize(
    ("touch", "told"),
    [
        ("x[n] = 7", "4 bytes were written behind 32 bytes of arrays"),
        ("x[-2] = 7", "4 bytes were written before 32 bytes of arrays"),
        ("y[n + 3] = 7", "4 bytes were written behind 32 bytes of arrays"),
    ],
)
def test_a_write_beside_an_array_is_an_error_and_hurts_nothing(touch: str, told: str) -> None:
    # x and y are views inside one larger array.
    whole = np.zeros(64, np.float32)
    x, y = whole[8:16], whole[32:40]
    with pytest.raises(KernelError, match=told):
        run_text(BESIDE.replace("TOUCH", touch), "beside", (1,), (8,), [x, y, np.int32(8)])
    assert whole.sum() == 8 and (x == 1).all()


def test_what_is_read_beside_an_array_is_no_number_to_reckon_with() -> None:
    whole = np.zeros(64, np.float32)
    x, y = whole[8:16], whole[32:40]
    run_text(
        BESIDE.replace("TOUCH", "y[1] = x[n] + x[-1]"), "beside", (1,), (8,), [x, y, np.int32(8)]
    )
    assert y[1] < -1e34 and (x == 1).all()


def test_views_that_share_memory_are_one_and_keep_their_alignment() -> None:
    source = """
    extern "C" __global__ void share(double* x, double* y, unsigned long long* place) {
        x[0] = 3;
        y[0] += x[0];
        *place = (unsigned long long)(x) % 64;
    }
    """
    whole, place = np.zeros(8), np.zeros(1, np.uint64)
    run_text(source, "share", (1,), (1,), [whole[1:], whole[1:5:2], place])
    assert whole.tolist() == [0, 6, 0, 0, 0, 0, 0, 0]
    assert place[0] == whole[1:].ctypes.data % 64
