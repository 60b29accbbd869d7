"""Settings of PyTorch's programs: kept, answered, and where they choose something, chosen."""

from __future__ import annotations

import threading

import pytest

import fastdist as fd


def test_settings_without_effect_are_kept_and_checked() -> None:
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
    fd.use_deterministic_algorithms(False)
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
