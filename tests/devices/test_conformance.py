"""The rules for every backend: one suite for the CPU, sim and, if there is a GPU, CUDA."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from fastdist.core.errors import DeviceError
from fastdist.devices import Backend, backend_of
from fastdist.devices.sim import SimBackend
from fastdist.language.scalar import parse
from tests.properties import in_one_test

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
WAIT_S = 30.0


@pytest.fixture(params=["cpu", "sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    backend = backend_of(request.param)
    yield backend
    if request.param == "sim":
        cast(SimBackend, backend).reset()


def sample(dtype: str, shape: tuple[int, ...] = (2, 3, 4)) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 7).astype(dtype)


@in_one_test("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (0,), (3, 0, 2), (70, 90)])
def test_values_survive_the_way_there_and_back(
    backend: Backend, dtype: str, shape: tuple[int, ...]
) -> None:
    values = sample(dtype, shape)
    back = backend.to_numpy(backend.from_numpy(values, 0))
    assert back.dtype == values.dtype and back.shape == shape and np.array_equal(back, values)


def test_from_numpy_takes_memory_with_gaps_and_swapped_axes(backend: Backend) -> None:
    values = np.arange(24.0).reshape(4, 6)[::2, ::-3].T
    assert np.array_equal(backend.to_numpy(backend.from_numpy(values, 0)), values)


def test_metadata_is_that_of_numpy(backend: Backend) -> None:
    values = sample("float32")
    array = backend.from_numpy(values, 0)
    for name in ("shape", "dtype", "strides", "ndim", "size", "nbytes"):
        assert getattr(array, name) == getattr(values, name), name


def test_empty_is_contiguous(backend: Backend) -> None:
    array = backend.empty((2, 3), np.dtype("float64"), 0)
    assert array.shape == (2, 3) and array.strides == (24, 8)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.reshape((4, 6)),
        lambda x: x.reshape((-1,)),
        lambda x: x.transpose((2, 0, 1)),
        lambda x: x.transpose((2, 0, 1)).reshape((24,)),
        lambda x: x[1],
        lambda x: x[..., 1:3],
        lambda x: x[:, ::-1, None],
        lambda x: x[0, ..., 2:1],
        lambda x: x[-1, 1:, ::2],
    ],
)
def test_views_read_as_those_of_numpy(backend: Backend, view: Any) -> None:
    values = sample("float32")
    expected = view(values)
    got = view(backend.from_numpy(values, 0))
    assert got.shape == expected.shape
    assert np.array_equal(backend.to_numpy(got), expected)


def test_writing_through_a_view_changes_the_base(backend: Backend) -> None:
    base = backend.from_numpy(np.zeros((2, 3)), 0)
    backend.copy_into(base[1, 1:], backend.from_numpy(np.array([5.0, 6.0]), 0))
    assert backend.to_numpy(base).tolist() == [[0, 0, 0], [0, 5, 6]]
    assert backend.data_ptr(base[1]) - backend.data_ptr(base) == 24


def test_expand_repeats_without_copying(backend: Backend) -> None:
    array = backend.from_numpy(np.array([[1.0], [2.0]]), 0)
    expanded = backend.expand(array, (3, 2, 2))
    assert expanded.strides == (0, 8, 0)
    assert backend.to_numpy(expanded).tolist() == [[[1, 1], [2, 2]]] * 3


def test_as_strided_counts_from_the_first_element(backend: Backend) -> None:
    array = backend.from_numpy(np.arange(12.0).reshape(3, 4), 0)
    view = backend.as_strided(array[1], (2, 2), (32, 8), -16)
    assert backend.to_numpy(view).tolist() == [[2, 3], [6, 7]]


@pytest.mark.parametrize(("source", "target"), [("float64", "int32"), ("int64", "float16")])
def test_copy_into_casts_and_broadcasts(backend: Backend, source: str, target: str) -> None:
    out = backend.empty((2, 3), np.dtype(target), 0)
    backend.copy_into(out, backend.from_numpy(np.array([1.7, -2.2, 3.0]).astype(source), 0))
    expected = np.array([1.7, -2.2, 3.0]).astype(source).astype(target)
    assert np.array_equal(backend.to_numpy(out), np.stack([expected] * 2))


def test_add_into_adds_in_place(backend: Backend) -> None:
    accumulator = backend.from_numpy(np.ones(4, np.float32), 0)
    backend.add_into(accumulator, backend.from_numpy(np.arange(4, dtype=np.float32), 0))
    assert backend.to_numpy(accumulator).tolist() == [1, 2, 3, 4]


def test_pointwise_broadcasts_and_takes_a_number_by_value(backend: Backend) -> None:
    body = parse("a * b + c", ("a", "b", "c"))
    a = backend.from_numpy(np.arange(3.0), 0)
    b = backend.from_numpy(np.array([[2.0], [3.0]]), 0)
    out = backend.empty((2, 3), np.dtype("float64"), 0)
    backend.pointwise(body, [a, b, np.array(1.0)], out)
    assert backend.to_numpy(out).tolist() == [[1, 3, 5], [1, 4, 7]]


def test_structured_kernel_takes_arrays_then_results_then_numbers(backend: Backend) -> None:
    array = backend.from_numpy(np.arange(6.0).reshape(2, 3), 0)
    out = backend.empty((2,), np.dtype("float64"), 0)
    backend.kernel("reduce.reductions.sum")(array, out, (1,))
    assert backend.to_numpy(out).tolist() == [3.0, 12.0]


def test_kernel_says_which_kernel_is_missing(backend: Backend) -> None:
    with pytest.raises(DeviceError, match=r"no kernel 'nowhere\.sum'"):
        backend.kernel("nowhere.sum")


def test_index_of_tells_the_device(backend: Backend) -> None:
    expected = None if backend.type == "cpu" else 0
    assert backend.index_of(backend.from_numpy(np.zeros(2), 0)) == expected


def test_empty_refuses_a_device_that_does_not_exist(backend: Backend) -> None:
    if backend.type == "cpu":
        assert backend.device_count() == 1
        return
    with pytest.raises(DeviceError, match=f"{backend.type}:{backend.device_count()}"):
        backend.empty((2,), np.dtype("float32"), backend.device_count())


def test_current_stream_is_the_one_entered_last_in_this_thread(backend: Backend) -> None:
    default = backend.current_stream(0)
    side, other = backend.stream(0), backend.stream(0)
    seen_elsewhere = []
    with side:
        with other:
            assert backend.current_stream(0) == other
        assert backend.current_stream(0) == side
        thread = threading.Thread(target=lambda: seen_elsewhere.append(backend.current_stream(0)))
        thread.start()
        thread.join()
    assert backend.current_stream(0) == default and seen_elsewhere == [default]


def test_work_on_a_side_stream_is_seen_after_its_event(backend: Backend) -> None:
    default, side = backend.current_stream(0), backend.stream(0)
    array = backend.from_numpy(np.ones(1000), 0)
    side.wait_event(default.record_event())
    with side:
        for _ in range(20):
            backend.add_into(array, array)
        done = side.record_event()
    default.wait_event(done)
    assert backend.to_numpy(array)[0] == 2.0**20
    assert done.query()


def test_synchronize_waits_for_all_streams(backend: Backend) -> None:
    events = []
    for _ in range(3):
        with backend.stream(0) as stream:
            array = backend.from_numpy(np.ones(100), 0)
            backend.add_into(array, array)
            events.append(stream.record_event())
    backend.synchronize(0)
    assert all(event.query() for event in events)


def test_host_functions_run_after_the_work_before_them(backend: Backend) -> None:
    stream = backend.stream(0)
    called = threading.Event()
    with stream:
        backend.from_numpy(np.ones(10), 0)
        before = stream.record_event()
        seen = []

        def function() -> None:
            seen.append(before.query())
            called.set()

        stream.launch_host_function(function)
    stream.synchronize()
    assert called.wait(WAIT_S) and seen == [True]


def test_memory_given_to_record_stream_outlives_its_array(backend: Backend) -> None:
    default, side = backend.current_stream(0), backend.stream(0)
    source = backend.from_numpy(np.full(1000, 3.0), 0)
    with side:
        out = backend.empty((1000,), np.dtype("float64"), 0)
        side.wait_event(default.record_event())
        backend.copy_into(out, source)
        backend.record_stream(source, side)
        del source
    # This array would get the memory of `source`, if that memory were already free.
    backend.from_numpy(np.zeros(1000), 0)
    default.wait_event(side.record_event())
    assert np.all(backend.to_numpy(out) == 3.0)


def test_many_threads_may_use_a_device_at_once(backend: Backend) -> None:
    results: list[float] = []

    def work(number: int) -> None:
        with backend.stream(0):
            array = backend.from_numpy(np.full(64, float(number)), 0)
            for _ in range(10):
                backend.add_into(array, array)
            results.append(float(backend.to_numpy(array)[0]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(results) == [1024.0 * number for number in range(8)]
