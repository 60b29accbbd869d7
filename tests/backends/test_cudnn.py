"""cuDNN switches select the compute type that convolutions on a GPU request from cuBLASLt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from fastdist.backends import cuda, cudnn
from fastdist.cuda import CUDAGraph, graph
from fastdist.devices.cuda import CudaBackend
from fastdist.kernels.cuda.linalg import library_product
from tests.fibre_shim import cublas_lt, cupy
from tests.fibre_shim.installed import cuda_on_fibres

F = nn.functional
# Values of cublasComputeType_t.
FLOAT32, FLOAT64, TF32 = 68, 70, 77


@pytest.fixture
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    monkeypatch.setattr(cublas_lt, "refusals", dict(cublas_lt.refusals))
    before = cudnn.allow_tf32, cudnn.enabled
    yield from cuda_on_fibres(monkeypatch)
    cudnn.allow_tf32, cudnn.enabled = before
    fd.set_float32_matmul_precision("highest")


def asked_for(work: Callable[[], object]) -> set[int]:
    """Return the compute types of the matrix products that `work` runs."""
    cublas_lt.computed_in.clear()
    work()
    assert cublas_lt.computed_in, "no product was computed"
    return set(cublas_lt.computed_in)


def drawn(*shape: int, dtype: Any = fd.float32) -> Any:
    values = np.random.default_rng(len(shape)).uniform(-1, 1, shape)
    return fd.tensor(values, dtype=dtype).to("cuda").requires_grad_()


CALLS: dict[str, Callable[[], Any]] = {
    "conv1d": lambda: F.conv1d(drawn(2, 3, 7), drawn(4, 3, 3), padding=1),
    "conv2d": lambda: F.conv2d(drawn(2, 3, 5, 5), drawn(4, 3, 3, 3), drawn(4)),
    "conv2d of one place": lambda: F.conv2d(drawn(1, 3, 5, 5), drawn(4, 3, 1, 1)),
    "conv3d": lambda: F.conv3d(drawn(1, 2, 3, 4, 4), drawn(3, 2, 2, 2, 2)),
    "conv_transpose2d": lambda: F.conv_transpose2d(drawn(2, 3, 4, 4), drawn(3, 2, 3, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_convolution_and_its_gradients_follow_the_switch(fibres: CudaBackend, name: str) -> None:
    assert cudnn.allow_tf32 and not cuda.matmul.allow_tf32
    for allowed, compute in ((True, TF32), (False, FLOAT32), (True, TF32)):
        cudnn.allow_tf32 = allowed
        made: list[Any] = []
        assert asked_for(lambda made=made: made.append(CALLS[name]())) == {compute}  # type: ignore[misc]
        assert asked_for(lambda made=made: made[0].sum().backward()) == {compute}  # type: ignore[misc]


def test_a_backward_pass_follows_the_switch_as_it_is_then(fibres: CudaBackend) -> None:
    out = CALLS["conv2d"]()
    cudnn.allow_tf32 = False
    assert asked_for(lambda: out.sum().backward()) == {FLOAT32}


def test_products_follow_their_own_switch(fibres: CudaBackend) -> None:
    x, weight = drawn(4, 4), drawn(4, 4)

    def work() -> None:
        (F.linear(x, weight) @ x).sum().backward()

    cudnn.allow_tf32 = True
    assert asked_for(work) == {FLOAT32}
    cudnn.allow_tf32 = False
    for choose in (
        lambda: setattr(cuda.matmul, "allow_tf32", True),
        lambda: fd.set_float32_matmul_precision("high"),
        lambda: fd.set_float32_matmul_precision("medium"),
        lambda: setattr(cuda.matmul, "fp32_precision", "tf32"),
    ):
        choose()
        assert asked_for(work) == {TF32} and asked_for(CALLS["conv2d"]) == {FLOAT32}
        cuda.matmul.fp32_precision = "ieee"
        assert asked_for(work) == {FLOAT32} and fd.get_float32_matmul_precision() == "highest"


def test_without_cudnn_convolutions_follow_the_switch_of_products(fibres: CudaBackend) -> None:
    cudnn.enabled = False
    assert asked_for(CALLS["conv2d"]) == {FLOAT32}
    cuda.matmul.allow_tf32 = True
    assert asked_for(CALLS["conv2d"]) == {TF32}


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_dtypes_never_compute_in_tf32(fibres: CudaBackend, dtype: str) -> None:
    kind = getattr(fd, dtype)

    def work() -> None:
        F.conv2d(drawn(1, 2, 4, 4, dtype=kind), drawn(3, 2, 3, 3, dtype=kind)).sum().backward()

    assert asked_for(work) == {FLOAT64 if dtype == "float64" else FLOAT32}


def test_the_switch_is_of_the_process(fibres: CudaBackend) -> None:
    cudnn.allow_tf32 = False
    found: list[set[int]] = []
    thread = threading.Thread(target=lambda: found.append(asked_for(CALLS["conv2d"])))
    thread.start()
    thread.join(20)
    assert found == [{FLOAT32}]


def test_a_captured_graph_keeps_the_choice_that_it_was_captured_with(fibres: CudaBackend) -> None:
    x, weight = drawn(1, 3, 5, 5).detach(), drawn(4, 3, 3, 3).detach()
    _ = F.conv2d(x, weight)
    captured = CUDAGraph()
    cudnn.allow_tf32 = False

    def capture() -> None:
        with graph(captured):
            F.conv2d(x, weight)

    assert asked_for(capture) == {FLOAT32}
    cudnn.allow_tf32 = True
    cublas_lt.computed_in.clear()
    captured.replay()
    assert not cublas_lt.computed_in  # a replay does not call cuBLASLt
    assert asked_for(lambda: F.conv2d(x, weight)) == {TF32}


def test_what_cublaslt_has_no_kernel_for_is_never_in_tf32_without_leave(
    fibres: CudaBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    cublas_lt.refusals["heuristic"] = 15
    library_product.forget()
    taken: list[Any] = []
    product = cupy.matmul

    def noted(x: Any, y: Any, *, out: Any = None) -> Any:
        taken.append((x.dtype, cupy.compute_types[np.float32]))
        return product(x, y, out=out)

    monkeypatch.setattr(cupy, "matmul", noted)
    expected = F.conv2d(*[one.detach().cpu() for one in (drawn(2, 3, 5, 5), drawn(4, 3, 3, 3))])
    cuda.matmul.allow_tf32 = True
    for allowed, dtype in ((False, np.float64), (True, np.float32)):
        cudnn.allow_tf32 = allowed
        found = F.conv2d(drawn(2, 3, 5, 5), drawn(4, 3, 3, 3)).detach().cpu()
        assert fd.allclose(found, expected, atol=1e-5)
        assert {kind for kind, _ in taken} == {np.dtype(dtype)}
        taken.clear()


def test_switches_are_set_for_a_block_and_take_nothing_but_bools() -> None:
    with cudnn.flags(enabled=True, allow_tf32=False):
        assert not cudnn.allow_tf32 and cudnn.conv.fp32_precision == "none"
        cudnn.conv.fp32_precision = "tf32"
        assert cudnn.allow_tf32
    with pytest.raises(ValueError, match="stop"), cudnn.flags(allow_tf32=False):
        raise ValueError("stop")
    assert cudnn.allow_tf32 and cudnn.enabled
    with pytest.raises(RuntimeError, match="allow_tf32: expected a bool, but got int"):
        cudnn.allow_tf32 = 1  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="allow_tf32: expected a bool, but got str"):
        cuda.matmul.allow_tf32 = "yes"  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="enabled: expected a bool"), cudnn.flags(enabled=2):  # type: ignore[arg-type]
        pass
    with pytest.raises(RuntimeError, match="Unknown precision: 'bf16'"):
        cudnn.conv.fp32_precision = "bf16"
