"""Gradients of products on devices are computed from raw arrays and equal the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.devices.backend import Backend
from fastdist.dispatch import node_writer
from tests.device_kinds import KINDS, backend_on
from tests.properties import in_one_test

F = fd.nn.functional
TOLERANCE = {"float32": 1e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    found: Iterator[Backend] = backend_on(request.param, monkeypatch)
    for _ in found:
        yield str(request.param)


def drawn(*shape: int, dtype: str = "float64") -> Any:
    values = np.random.default_rng(sum(shape)).uniform(-1, 1, shape)
    return fd.tensor(values).to(getattr(fd, dtype))


CALLS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "matmul": (lambda x, y: x @ y, ((5, 3), (3, 4))),
    "matmul of turned ones": (lambda x, y: x.t() @ y.t(), ((3, 5), (4, 3))),
    "matmul of a part": (lambda x, y: x[1:, ::2] @ y, ((6, 6), (3, 4))),
    "matmul of a vector": (lambda x, y: x @ y, ((3,), (3, 4))),
    "matmul of batches": (lambda x, y: x @ y, ((2, 5, 3), (3, 4))),
    "linear": (F.linear, ((5, 3), (4, 3), (4,))),
    "linear of batches": (F.linear, ((2, 5, 3), (4, 3), (4,))),
    "linear without bias": (F.linear, ((5, 3), (4, 3))),
    "one place": (F.linear, ((1, 1), (1, 1), (1,))),
    "nothing": (lambda x, y: x @ y, ((0, 3), (3, 4))),
}
# Losses whose gradient by the output is dense, one expanded number, or has transposed axes.
LOSSES: dict[str, Callable[[Any], Any]] = {
    "weighted": lambda out: (out * out).sum(),
    "sum": lambda out: out.sum(),
    "turned": lambda out: (out.transpose(-1, 0) ** 2).sum(),
}


def gradients(name: str, loss: str, device: str, dtype: str) -> list[Any]:
    call, shapes = CALLS[name]
    leaves = [drawn(*shape, dtype=dtype).to(device).requires_grad_() for shape in shapes]
    LOSSES[loss](call(*leaves)).backward()
    return [leaf.grad.cpu().double().numpy() for leaf in leaves]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", TOLERANCE)
@in_one_test("loss", [*LOSSES])
@in_one_test("name", [*CALLS])
def test_gradients_are_those_of_the_cpu(kind: str, name: str, loss: str, dtype: str) -> None:
    expected = gradients(name, loss, "cpu", dtype)
    found = gradients(name, loss, f"{kind}:0", dtype)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_matrices_need_no_tensors_on_the_way_back(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_tensors: list[Any] = []
    real = node_writer.OpNode.apply_by_tensors

    def noted(node: Any, *given: Any) -> Any:
        by_tensors.append(node.op.name)
        return real(node, *given)

    monkeypatch.setattr(node_writer.OpNode, "apply_by_tensors", noted)
    for name in ("matmul", "matmul of turned ones", "linear", "linear without bias"):
        gradients(name, "weighted", f"{kind}:0", "float32")
    assert not {"matmul", "linear_kernel"}.intersection(by_tensors)
    gradients("matmul of batches", "weighted", f"{kind}:0", "float32")
    assert "matmul" in by_tensors


def test_complex_products_conjugate(kind: str) -> None:
    if kind == "sim":
        return
    x = drawn(2, 3).to(fd.complex128)
    values = [x * (1 + 2j), x.t() * (2 - 1j)]

    def found(device: str) -> list[Any]:
        leaves = [one.to(device).requires_grad_() for one in values]
        fd.view_as_real(leaves[0] @ leaves[1]).sum().backward()
        return [leaf.grad.cpu().resolve_conj().numpy() for leaf in leaves]

    for mine, theirs in zip(found("cuda:0"), found("cpu"), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_second_gradients_go_through_tensors(kind: str) -> None:
    def found(device: str) -> list[Any]:
        x, y = (drawn(3, 3).to(device).requires_grad_() for _ in range(2))
        (first,) = fd.autograd.grad(((x @ y) ** 2).sum(), x, create_graph=True)
        (first**2).sum().backward()
        return [x.grad.cpu().numpy(), y.grad.cpu().numpy()]

    for mine, theirs in zip(found(f"{kind}:0"), found("cpu"), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
