"""Ops and gradients become NVTX ranges with PyTorch's labels."""

from __future__ import annotations

import re
import threading

import pytest

import fastdist as fd
from fastdist.autograd.profiler import emit_itt, emit_nvtx, profile, record_function
from fastdist.core.errors import DeviceError
from fastdist.cuda import nvtx as public
from fastdist.devices import backend
from fastdist.graph.modes import modes
from tests.profiler.nvtx import StandIn, install


@pytest.fixture
def nvtx(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return install(monkeypatch)


def test_each_op_and_gradient_is_a_range_and_gradients_have_their_ops_numbers(
    nvtx: StandIn,
) -> None:
    x, y = fd.ones(2, 3, requires_grad=True), fd.ones(3)
    with emit_nvtx(record_shapes=True) as emitted:
        with record_function("forward"):
            product = x * y
        product.sum().backward()
        with fd.no_grad():
            x.exp()
        x.detach().add_(1.0)
    assert emitted.enabled and not any(nvtx.open.values())
    texts = [re.sub(r", op_id = \d+", "", text) for text in nvtx.pushed]
    number = product.grad_fn.seq  # type: ignore[union-attr]
    assert texts[:2] == ["forward", f"aten::mul, seq = {number}, sizes = [[2, 3], [3]]"]
    assert f"MulBackward0, seq = {number}, sizes = [[2, 3]]" in texts
    assert "torch::autograd::AccumulateGrad, sizes = [[2, 3]]" in texts
    assert "aten::exp, sizes = [[2, 3]]" in texts
    assert re.fullmatch(r"aten::add_, seq = \d+, sizes = \[\[2, 3\], \[\]\]", texts[-1])
    ids = [int(text) for text in re.findall(r"op_id = (\d+)", " ".join(nvtx.pushed))]
    assert len(ids) == len(texts) and ids == sorted(set(ids)) and ids[0] > 0


def test_sizes_are_told_where_they_are_asked_for(nvtx: StandIn) -> None:
    x = fd.ones(2)
    with emit_nvtx(), profile(record_shapes=True) as p:
        x.exp()
    with emit_nvtx(enabled=False):
        x.exp()
    (text,) = nvtx.pushed
    assert text.startswith("aten::exp, seq = ") and "sizes" not in text
    assert p.function_events is not None
    assert [event.input_shapes for event in p.function_events] == [[[2]]]


def test_ranges_end_where_they_began_though_the_block_ends_between(nvtx: StandIn) -> None:
    emitted = emit_nvtx()
    emitted.__enter__()
    outer = record_function("outer")
    with outer:
        emitted.__exit__(None, None, None)
        with record_function("late"):
            assert [*nvtx.open[threading.get_ident()]] == [nvtx.pushed[0]]
    assert nvtx.open == {threading.get_ident(): []} and len(nvtx.pushed) == 1


def test_an_error_ends_its_ranges_and_the_block(nvtx: StandIn) -> None:
    before = (modes.special, modes.tracers)
    with pytest.raises(RuntimeError), emit_nvtx():
        fd.ones(2) @ fd.ones(3)
    assert not any(nvtx.open.values()) and (modes.special, modes.tracers) == before


def test_it_is_not_entered_twice_at_once(nvtx: StandIn) -> None:
    emitted, x = emit_nvtx(), fd.ones(2)
    with emitted, pytest.raises(RuntimeError, match="not reentrant"):
        emitted.__enter__()
    with emitted:
        x.exp()
    assert len(nvtx.pushed) == 1


def test_without_a_gpu_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(backend._loaded, "cuda", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    from fastdist.devices.cuda import library

    library.cupy.cache_clear()
    before = (modes.special, modes.tracers)
    with pytest.raises(DeviceError, match=r"cuda needs CuPy.*pip install -e '.\[cuda12\]'"):
        emit_nvtx().__enter__()
    with pytest.raises(DeviceError, match="cuda needs CuPy"):
        public.range_push("x")
    assert (modes.special, modes.tracers) == before


def test_a_cupy_without_nvtx_is_told_of(nvtx: StandIn) -> None:
    nvtx.available = False
    with pytest.raises(DeviceError, match="this CuPy was built without NVTX"):
        emit_nvtx().__enter__()


def test_ranges_of_the_users_own(nvtx: StandIn) -> None:
    assert public.range_push("a") == 0
    with public.range("step {}", 3):
        assert nvtx.open[threading.get_ident()] == ["a", "step 3"]
        public.mark("here")
    assert (public.range_pop(), public.range_pop()) == (0, -1)
    number = public.range_start("anywhere")
    assert nvtx.started == {number: "anywhere"} and nvtx.marked == ["here"]
    public.range_end(number)
    assert nvtx.started == {}


def test_itt_is_refused_and_says_what_is_there() -> None:
    with pytest.raises(NotImplementedError, match="emit_nvtx sends them"):
        emit_itt()
    with emit_itt(enabled=False):
        pass
