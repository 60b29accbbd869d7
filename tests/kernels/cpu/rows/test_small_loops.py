"""NumPy computes short rows at first, and a compiled loop once enough calls make it worthwhile."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fastdist.kernels.cpu.jit import background, kernel_cache, object_store
from fastdist.kernels.cpu.rows import row_kernels, small_loops, small_row_steps
from fastdist.kernels.cpu.rows.small_tables import table

FLOAT = np.dtype(np.float32)


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Remove all kernels of this process; return the list of jobs of the thread that compiles."""
    asked: list[Any] = []
    for name, value in {
        "loops": {}, "refused": set(), "missing": set(), "calls": 0, "calls_of": {},
    }.items():  # fmt: skip
        monkeypatch.setattr(small_loops._State, name, value)
    monkeypatch.setattr(background, "compile_later", lambda key, work: asked.append((key, work)))
    monkeypatch.delitem(sys.modules, small_loops._COMPILER, raising=False)
    monkeypatch.delitem(sys.modules, small_loops._READER, raising=False)
    return asked


def softmax() -> Any:
    return small_loops.result_by("small_softmax", (3, 20), FLOAT, 3, 20)


def jobs(wanted: list[Any]) -> list[tuple[str, Any]]:
    """Return how each job gets its kernel, and the kernel's key."""
    return [(how, key) for (_, how, key), _ in wanted]


KEY = ("small_softmax", "float32")


def test_few_calls_ask_for_no_compiler(wanted: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_loops._State, "missing", {KEY})
    run, x = softmax(), np.ones((3, 20), np.float32)
    small_loops._State.calls = small_loops.CALLS_BEFORE - 1
    run(x)
    assert wanted == []
    run(x)
    assert jobs(wanted) == [("compiled", KEY)]


def test_a_kernel_with_many_calls_is_looked_for_in_the_cache(wanted: list[Any]) -> None:
    run, x = softmax(), np.ones((3, 20), np.float32)
    small_loops._State.calls_of[KEY] = small_loops.CALLS_BEFORE_A_LOOK - 1
    run(x)
    small_loops.result_by("small_log_softmax", (3, 20), FLOAT, 3, 20)(x)
    assert wanted == []
    run(x)
    assert jobs(wanted) == [("loaded", KEY)]


def test_a_process_with_another_kernel_looks_for_a_loop_at_once(
    wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, small_loops._READER, small_loops)
    softmax()(np.ones((3, 20), np.float32))
    assert jobs(wanted) == [("loaded", KEY)]


def test_what_the_cache_does_not_have_is_looked_for_once(
    wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, x = softmax(), np.ones((3, 20), np.float32)
    reads: list[str] = []
    monkeypatch.setattr(kernel_cache, "_found", {})
    monkeypatch.setattr(row_kernels, "_found", {})
    monkeypatch.setattr(object_store, "read", reads.append)
    small_loops._State.calls_of[KEY] = small_loops.CALLS_BEFORE_A_LOOK
    for _ in range(3):
        run(x)
        while wanted:
            wanted.pop()[1]()
    assert len(reads) == 1
    assert small_loops._State.missing == {KEY}


def test_a_loop_that_the_cache_has_is_read_once_and_serves(
    wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert small_loops.compiled(*KEY) is not None
    run, x = softmax(), np.random.default_rng(0).standard_normal((3, 20)).astype(np.float32)
    reads, read = [], object_store.read

    def noted(key: str) -> Any:
        reads.append(key)
        return read(key)

    monkeypatch.setattr(kernel_cache, "_found", {})
    monkeypatch.setattr(row_kernels, "_found", {})
    monkeypatch.setattr(object_store, "read", noted)
    monkeypatch.setitem(sys.modules, small_loops._READER, small_loops)
    before = run(x)
    assert reads == []  # the calling thread does not read files
    wanted[0][1]()
    assert len(reads) == len(set(reads)) == 4 and KEY in small_loops._State.loops
    assert run(x).tobytes() == before.tobytes() and len(reads) == 4


def test_a_loop_without_what_runs_it_is_not_loaded(
    wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have stored the loop, but not yet the function that runs it."""
    assert small_loops.compiled(*KEY) is not None
    read = object_store.read
    monkeypatch.setattr(kernel_cache, "_found", {})
    monkeypatch.setattr(row_kernels, "_found", {})
    monkeypatch.setattr(
        object_store, "read", lambda key: None if "job_runner" in key else read(key)
    )
    monkeypatch.setattr(kernel_cache, "_made", None)  # compiling raises TypeError
    assert small_loops.loaded(*KEY) is small_loops.MISSING


def test_loading_and_compiling_in_the_background_are_ranges_of_their_own(
    wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "_found", {})
    monkeypatch.setattr(row_kernels, "_found", {})
    monkeypatch.setattr(object_store, "read", lambda _: None)
    found: list[str] = []

    @contextlib.contextmanager
    def noted(name: str, kind: str) -> Iterator[None]:
        found.append(name)
        yield

    monkeypatch.setattr(kernel_cache, "time_range", noted)
    monkeypatch.setattr(kernel_cache, "_made", lambda *_, **__: row_kernels)
    monkeypatch.setattr(row_kernels, "row_launcher", lambda _: None)
    small_loops._later(KEY, small_loops.loaded)
    small_loops._later(KEY, small_loops.compiled)
    for _, work in wanted:
        work()
    load, compilation = "fastdist::load_kernel", "fastdist::compile_kernel"
    assert found == [load, load, compilation]


def test_a_call_gives_the_same_bits_before_and_after_its_loop_is_ready(wanted: list[Any]) -> None:
    run = softmax()
    x = np.random.default_rng(0).standard_normal((3, 20)).astype(np.float32)
    small_loops._State.calls = small_loops.CALLS_BEFORE
    before = run(x)
    ((_, compile_it),) = wanted
    compile_it()
    assert KEY in small_loops._State.loops
    assert run(x).tobytes() == before.tobytes()


def test_a_loop_that_makes_other_bits_is_never_run(
    wanted: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    right = small_loops.twin

    def off(*given: Any) -> Any:
        run = right(*given)

        def rounded_otherwise(operands: Any) -> None:
            run(operands)
            operands[1][0, 0] = np.nextafter(operands[1][0, 0], np.float32(9))

        return rounded_otherwise

    monkeypatch.setattr(small_loops, "twin", off)
    small_loops._State.calls = small_loops.CALLS_BEFORE
    small_loops.loop_or_none("small_softmax", FLOAT)
    with caplog.at_level(logging.INFO, small_loops.__name__):
        wanted[0][1]()
    assert "makes other bits" in caplog.text
    small_loops.loop_or_none("small_softmax", FLOAT)
    assert len(wanted) == 1
    assert small_loops._State.loops == {}


def test_what_does_not_compile_stays_with_numpy(
    wanted: list[Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(name: str, dtype: str) -> Any:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(small_loops, "compiled", fail)
    small_loops._State.calls = small_loops.CALLS_BEFORE
    small_loops.loop_or_none("small_softmax", FLOAT)
    wanted[0][1]()
    assert "does not compile" in caplog.text
    assert softmax()(np.ones((3, 20), np.float32)).sum() == pytest.approx(3.0)


def test_without_numpys_logarithm_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_loops, "log_loop", lambda: None)
    assert small_loops.compiled("small_softmax", "float32") is None


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", small_row_steps.SMALL)
def test_every_loop_passes_the_comparison_before_it_serves(name: str, dtype: str) -> None:
    assert small_loops.compiled(name, dtype) is not None


def test_an_array_of_a_derived_class_is_read_as_an_array() -> None:
    class Derived(np.ndarray):
        pass

    x = np.ones((3, 20), np.float32)
    run = softmax()
    assert run(x.view(Derived)).tobytes() == run(x).tobytes()
    launch = small_loops.bound("small_norm", FLOAT, 1, 60)
    out = np.empty((), np.float32)
    launch((x, out, table(60)))
    assert out == np.sqrt(np.float32(60))
