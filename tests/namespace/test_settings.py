"""Settings of PyTorch's programs are stored and returned, and select an implementation."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import fastdist as fd
from fastdist.core.determinism import determinism


@pytest.fixture
def waiving() -> Iterator[None]:
    """After one test, forget settings that allow results which are not repeatable."""
    yield
    determinism.forget()


@pytest.mark.usefixtures("waiving")
def test_settings_are_kept_and_checked() -> None:
    assert fd.get_float32_matmul_precision() == "highest"
    fd.set_float32_matmul_precision("high")
    assert fd.get_float32_matmul_precision() == "high"
    fd.set_float32_matmul_precision("highest")
    with pytest.warns(UserWarning, match="foo is not one of 'highest', 'high', or 'medium'"):
        fd.set_float32_matmul_precision("foo")
    fd.use_deterministic_algorithms(True)
    assert fd.are_deterministic_algorithms_enabled() and fd.get_deterministic_debug_mode() == 2
    fd.set_deterministic_debug_mode("warn")
    assert fd.is_deterministic_algorithms_warn_only_enabled()
    assert not determinism.is_waived
    fd.set_deterministic_debug_mode("default")
    assert determinism.is_waived and not fd.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of `defau"):
        fd.set_deterministic_debug_mode("x")
    with pytest.raises(RuntimeError, match="set_num_interop_threads expects a positive integer"):
        fd.set_num_interop_threads(0)
    assert fd.get_num_interop_threads() >= 1 and fd.set_flush_denormal(False)
    assert not fd.set_flush_denormal(True)


def test_the_default_tensor_type_sets_the_default_dtype() -> None:
    with pytest.warns(UserWarning, match=r"torch.set_default_tensor_type\(\) is deprecated"):
        fd.set_default_tensor_type(fd.DoubleTensor)
    assert fd.ones(1).dtype is fd.float64
    with pytest.warns(UserWarning, match="deprecated"):
        fd.set_default_tensor_type("torch.FloatTensor")
    assert fd.ones(1).dtype is fd.float32
    with (
        pytest.warns(UserWarning, match="deprecated"),
        pytest.raises(TypeError, match="only floating-point types are supported"),
    ):
        fd.set_default_tensor_type(fd.LongTensor)


def test_a_device_is_the_default_in_its_block_and_thread() -> None:
    elsewhere = []
    with fd.device("sim"):
        made = [fd.ones(1), fd.rand(1), fd.tensor([1.0]), fd.arange(2), fd.empty(1), fd.eye(1)]
        thread = threading.Thread(target=lambda: elsewhere.append(fd.ones(1).device.type))
        thread.start()
        thread.join()
        with fd.device("cpu"):
            assert fd.ones(1).device.type == "cpu"
        assert fd.get_default_device() == fd.device("sim:0")
        assert fd.zeros(1, device="cpu").device.type == "cpu"
    assert {one.device.type for one in made} == {"sim"} and elsewhere == ["cpu"]
    assert fd.ones(1).device.type == "cpu"


def test_the_default_device_can_be_set() -> None:
    fd.set_default_device("sim:1")
    try:
        assert str(fd.zeros(2).device) == "sim:1"
    finally:
        fd.set_default_device(None)
    assert fd.get_default_device() is fd.device("cpu") is fd.zeros(1).device


def test_what_programs_ask_of_a_tensor_is_answered() -> None:
    x = fd.ones(2, dtype=fd.float64)
    asked = ["is_xpu", "is_mps", "is_sparse", "is_quantized", "is_meta", "is_mkldnn", "is_nested"]
    assert not any(getattr(x, name) for name in asked) and not x.is_pinned()
    assert x.new(2, 3).shape == (2, 3) and x.new([1, 2]).dtype is fd.float64
    if not fd.cuda.is_available():
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none"):
            x.pin_memory()


def test_inference_mode_tells_its_thread_alone() -> None:
    assert not fd.is_inference_mode_enabled()
    with fd.inference_mode():
        told: list[bool] = []
        other = threading.Thread(target=lambda: told.append(fd.is_inference_mode_enabled()))
        other.start()
        other.join(30)
        with fd.inference_mode(False):
            told.append(fd.is_inference_mode_enabled())
        told.append(fd.is_inference_mode_enabled())
    assert told == [False, False, True] and not fd.is_inference_mode_enabled()


def test_anomaly_mode_is_switched_and_told() -> None:
    try:
        fd.set_anomaly_enabled(True, False)
        assert fd.is_anomaly_enabled() and not fd.is_anomaly_check_nan_enabled()
    finally:
        fd.set_anomaly_enabled(False)
    assert not fd.is_anomaly_enabled() and fd.is_anomaly_check_nan_enabled()


def test_what_is_told_once_is_told_each_time_if_asked_for() -> None:
    x = fd.ones(2, 2, 2)
    fd.set_warn_always(True)
    try:
        for _ in range(2):
            with pytest.warns(UserWarning, match="dimension other than 2"):
                _ = x.T
        assert fd.is_warn_always_enabled()
    finally:
        fd.set_warn_always(False)


def test_programs_are_told_what_is_here() -> None:
    x = fd.ones(1)
    assert (fd.has_lapack, fd.has_spectral) == (True, True)
    assert (fd.has_mkl, fd.is_vulkan_available()) == (False, False)
    assert not (fd.is_distributed(x) or fd.is_inference(x)) and fd.compiled_with_cxx11_abi()
    assert fd.get_device(x) == -1 and fd.get_device_module("mps") is fd.mps
    assert fd.get_device_module(fd.device("cpu")) is fd.cpu
    assert fd.typename(3) == "int" and fd.typename(x) == x.type()
    assert fd.typename(fd.nn.Linear(1, 1)).endswith("linear.Linear")
    assert fd.get_file_path("fastdist", "a") == f"{fd.__path__[0]}/a"
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda, mps, xpu"):
        fd.get_device_module("foo")
