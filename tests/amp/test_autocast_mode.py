"""autocast computes the ops on PyTorch's lists in float16 or float32 and leaves other ops alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.graph.modes import modes

F = fd.nn.functional
# (name, call, dtype for float32 inputs, dtype for float16 inputs), from torch 2.13 on the CPU
ON_CPU: list[tuple[str, Callable[[Any], Any], Any, Any]] = [
    ("matmul", lambda x: x @ x, fd.float16, fd.float16),
    ("mm", lambda x: x.mm(x), fd.float16, fd.float16),
    ("bmm", lambda x: x[None].bmm(x[None]), fd.float16, fd.float16),
    ("addmm", lambda x: fd.addmm(x.float(), x, x), fd.float16, fd.float16),
    ("linear", lambda x: F.linear(x, x.float(), x[0].float()), fd.float16, fd.float16),
    ("einsum", lambda x: fd.einsum("ij,jk->ik", x, x), fd.float16, fd.float16),
    ("mse_loss", lambda x: F.mse_loss(x, x.detach()), fd.float32, fd.float32),
    ("cross_entropy", lambda x: F.cross_entropy(x, fd.tensor([0, 1])), fd.float32, fd.float32),
    ("l1_loss", lambda x: F.l1_loss(x, x.detach()), fd.float32, fd.float32),
    ("prod", lambda x: x.prod(), fd.float32, fd.float32),
    ("cat", lambda x: fd.cat([x, x.float()]), fd.float32, fd.float32),
    ("stack", lambda x: fd.stack([x, x.float()]), fd.float32, fd.float32),
    ("exp", lambda x: x.exp(), fd.float32, fd.float16),
    ("softmax", lambda x: F.softmax(x, 0), fd.float32, fd.float16),
    ("layer_norm", lambda x: F.layer_norm(x, (2,)), fd.float32, fd.float16),
    ("sum", lambda x: x.sum(), fd.float32, fd.float16),
]


@pytest.mark.parametrize(("name", "call", "of_float32", "of_float16"), ON_CPU)
def test_ops_compute_in_the_dtype_of_pytorch_s_lists(
    name: str, call: Callable[[Any], Any], of_float32: Any, of_float16: Any
) -> None:
    x = fd.tensor([[0.25, 0.5], [0.75, 1.0]])
    with fd.autocast("cpu", dtype=fd.float16):
        assert call(x).dtype is of_float32 and call(x.half()).dtype is of_float16
    assert call(x).dtype is fd.float32


def test_float64_is_never_cast() -> None:
    x = fd.ones(2, 2, dtype=fd.float64)
    with fd.autocast("cpu", dtype=fd.float16):
        assert (x @ x).dtype is fd.float64


def test_gradients_come_back_in_the_parameters_dtype() -> None:
    model = fd.nn.Linear(3, 2)
    with fd.autocast("cpu", dtype=fd.float16):
        out = model(fd.ones(4, 3))
        loss = F.mse_loss(out, fd.zeros(4, 2))
    loss.backward()
    assert (out.dtype, loss.dtype, model.weight.grad.dtype) == (fd.float16, fd.float32, fd.float32)
    half = fd.ones(4, 3).half() @ model.weight.detach().half().t() + model.bias.detach().half()
    expected = (half.float() * 2 / 8).half().t() @ fd.ones(4, 3).half()
    assert (model.weight.grad - expected.float()).abs().max() < 2e-3


def test_a_weight_is_cast_once_unless_it_changes() -> None:
    w = fd.ones(2, 2, requires_grad=True)
    x = fd.ones(2, 2)
    with fd.autocast("cpu", dtype=fd.float16):
        first, second = (x @ w).grad_fn.next_functions, (x @ w).grad_fn.next_functions
        assert first[1][0] is second[1][0]
        with fd.no_grad():
            w.mul_(3.0)
        assert (x @ w).tolist() == [[6.0, 6.0], [6.0, 6.0]]
    with fd.autocast("cpu", dtype=fd.float16, cache_enabled=False):
        first, second = (x @ w).grad_fn.next_functions, (x @ w).grad_fn.next_functions
        assert first[1][0] is not second[1][0]


def test_blocks_nest_and_are_left_by_errors() -> None:
    x = fd.ones(2, 2)
    with fd.autocast("cpu", dtype=fd.float16) as outer:
        with fd.autocast("cpu", enabled=False):
            assert (x @ x).dtype is fd.float32 and not fd.is_autocast_enabled("cpu")
        with pytest.raises(ZeroDivisionError), outer:
            _ = 1 // 0
        assert (x @ x).dtype is fd.float16 and fd.get_autocast_dtype("cpu") is fd.float16
    assert (x @ x).dtype is fd.float32
    assert (modes.tracers, modes.special) == (0, 0)


def test_it_decorates_and_is_a_matter_of_one_thread() -> None:
    @fd.amp.autocast("cpu", dtype=fd.float16)
    def product(x: fd.Tensor) -> Any:
        return x @ x

    elsewhere = []
    with fd.autocast("cpu", dtype=fd.float16):
        thread = threading.Thread(
            target=lambda: elsewhere.append((fd.ones(2, 2) @ fd.ones(2, 2)).dtype)
        )
        thread.start()
        thread.join()
    assert product(fd.ones(2, 2)).dtype is fd.float16 and elsewhere == [fd.float32]


def test_the_cpu_casts_to_bfloat16_unless_told_otherwise() -> None:
    x = fd.ones(2, 2, requires_grad=True)
    with fd.autocast("cpu"):
        found = x @ x
    assert found.dtype is fd.bfloat16
    found.sum().backward()
    assert x.grad is not None and x.grad.dtype is fd.float32
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_what_is_not_there_is_said_and_casts_nothing() -> None:
    x = fd.ones(2, 2)
    with pytest.warns(
        UserWarning, match=r"In CPU autocast, but the target dtype is not supp.*bflo"
    ):
        block = fd.autocast("cpu", dtype=fd.float64)
    with block:
        assert (x @ x).dtype is fd.float32
    with pytest.raises(RuntimeError, match="User specified an unsupported autocast device_type"):
        fd.autocast("tpu")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: `<class"):
        fd.autocast(fd.device("cpu"))  # type: ignore[arg-type]
    fd.autocast("cuda", enabled=False)


def test_the_older_names_are_the_same_blocks() -> None:
    from fastdist.cpu.amp import autocast

    with autocast(dtype=fd.float16):
        assert (fd.ones(2, 2) @ fd.ones(2, 2)).dtype is fd.float16
    assert issubclass(fd.cuda.amp.autocast, fd.amp.autocast)


def test_a_function_of_one_s_own_computes_in_the_dtype_that_it_says() -> None:
    class Square(fd.autograd.Function):
        @staticmethod
        @fd.amp.custom_fwd(device_type="cpu", cast_inputs=fd.float32)
        def forward(ctx: Any, x: Any) -> Any:
            assert not fd.is_autocast_enabled("cpu")
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @fd.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g @ x.t() + x.t() @ g

    x = fd.ones(2, 2, dtype=fd.float16, requires_grad=True)
    with fd.autocast("cpu", dtype=fd.float16):
        out = Square.apply(x)
    out.sum().backward()
    assert out.dtype is fd.float32 and x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
