"""`fastdist.cuda` on any machine: questions are answered, work needs a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fastdist
from fastdist.backends.backend import backend_of
from fastdist.core.device import Device
from fastdist.core.errors import DeviceError
from fastdist.core.generator import default_generator_of


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
