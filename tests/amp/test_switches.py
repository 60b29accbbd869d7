"""autocast can be switched on and off without a `with` block, and leaves no state behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fastdist as fd
from fastdist.graph.modes import modes
from fastdist.interpreters.autocast import casts

X = fd.ones(2, 2)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = (modes.tracers, modes.special)
    yield
    fd.set_autocast_cpu_enabled(False)
    casts.chosen.clear()
    casts.dtypes = {}
    assert (modes.tracers, modes.special) == before


def test_products_are_cast_until_it_is_switched_off() -> None:
    fd.set_autocast_cpu_dtype(fd.float16)
    fd.set_autocast_cpu_enabled(True)
    assert fd.is_autocast_cpu_enabled() and (X @ X).dtype is fd.float16
    fd.set_autocast_enabled("cpu", False)
    assert not fd.is_autocast_cpu_enabled() and (X @ X).dtype is fd.float32


def test_a_block_inside_goes_back_to_what_was_switched_on() -> None:
    fd.set_autocast_dtype("cpu", fd.float16)
    fd.set_autocast_enabled("cpu", True)
    with fd.autocast("cpu", enabled=False):
        assert (X @ X).dtype is fd.float32
    assert (X @ X).dtype is fd.float16


def test_what_is_switched_on_in_a_block_ends_with_it() -> None:
    with fd.autocast("cpu", dtype=fd.float16, enabled=False):
        fd.set_autocast_cpu_dtype(fd.float16)
        fd.set_autocast_cpu_enabled(True)
        assert (X @ X).dtype is fd.float16
    assert (X @ X).dtype is fd.float32


def test_a_dtype_that_is_not_there_is_warned_of() -> None:
    assert fd.get_autocast_cpu_dtype() is fd.bfloat16
    fd.set_autocast_cpu_dtype(fd.float64)
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        fd.set_autocast_cpu_enabled(True)
    assert not fd.is_autocast_cpu_enabled()


def test_the_dtype_of_blocks_is_told() -> None:
    fd.set_autocast_gpu_dtype(fd.float32)
    assert fd.get_autocast_gpu_dtype() is fd.get_autocast_dtype("cuda") is fd.float32


def test_the_cache_is_kept_or_not() -> None:
    weight = fd.ones(2, 2, requires_grad=True)
    with fd.autocast("cpu", dtype=fd.float16):
        _ = X @ weight
        assert fd.is_autocast_cache_enabled() and casts.cache
        fd.clear_autocast_cache()
        fd.set_autocast_cache_enabled(False)
        _ = X @ weight
        assert not casts.cache and not fd.is_autocast_cache_enabled()
    assert fd.is_autocast_cache_enabled()
    assert fd.autocast_increment_nesting() == fd.autocast_decrement_nesting() + 1


def test_a_type_of_device_that_is_none_is_refused() -> None:
    for call in (fd.get_autocast_dtype, lambda kind: fd.set_autocast_enabled(kind, True)):
        with pytest.raises(TypeError, match="must be str, not int"):
            call(3)
        with pytest.raises(RuntimeError, match="unsupported autocast device_type 'toaster'"):
            call("toaster")
