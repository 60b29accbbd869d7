"""`fastdist.cuda` on any machine: questions are answered, work needs a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fastdist
from fastdist.core.device import Device
from fastdist.core.errors import DeviceError
from fastdist.core.generator import default_generator_of
from fastdist.devices.backend import backend_of


def gpus() -> int:
    """Return what the backend itself says."""
    try:
        return backend_of("cuda").device_count()
    except DeviceError:
        return 0


def test_cuda_counts_the_gpus() -> None:
    assert fastdist.cuda.device_count() == gpus()
    assert fastdist.cuda.is_available() is (gpus() > 0)


def test_asking_for_a_gpu_does_not_import_cupy_where_it_is_missing() -> None:
    code = (
        "import sys, fastdist; sys.modules['cupy'] = None; "
        "print(fastdist.cuda.is_available(), fastdist.cuda.device_count())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "0"]


def test_cuda_is_seeded_whether_it_is_there_or_not() -> None:
    on_gpu = default_generator_of(Device("cuda", 0))
    before = on_gpu.initial_seed()
    try:
        fastdist.cuda.manual_seed(3)
        assert on_gpu.initial_seed() == 3
        fastdist.cuda.manual_seed_all(4)
        assert on_gpu.initial_seed() == 4
    finally:
        fastdist.cuda.manual_seed_all(before)


def test_a_device_that_is_no_gpu_is_refused() -> None:
    with pytest.raises((ValueError, DeviceError)):
        fastdist.cuda.synchronize("cpu")


def test_no_stream_leaves_things_as_they_are() -> None:
    with fastdist.cuda.stream(None):
        assert fastdist.ones(1).item() == 1.0


def test_what_programs_ask_before_they_decide_is_answered_without_a_gpu() -> None:
    assert not fastdist.cuda.is_bf16_supported()
    fastdist.cuda.empty_cache()
    if not gpus():
        assert fastdist.cuda.memory_allocated() == fastdist.cuda.max_memory_allocated() == 0
        assert fastdist.cuda.get_rng_state_all() == [] and not fastdist.cuda.is_initialized()
        with pytest.raises(DeviceError):
            fastdist.cuda.set_device(0)
        with pytest.raises(AttributeError, match=r"nearest in fastdist\.cuda: synchronize"):
            _ = fastdist.cuda.syncronize
