"""`fastdist.trace`: a program's calls with shapes and call sites, and the program made of them."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist.namespace.catalogue import OPS
from fastdist.nn import functional as F


def names(trace: Any) -> list[str]:
    return [call.op for call in trace]


def test_a_trace_prints_ops_with_shapes_dtypes_and_the_user_s_lines() -> None:
    def program(x: Any) -> Any:
        return (x * 2.0).exp().sum(1)

    here = program.__code__.co_firstlineno + 1
    lines = str(fd.trace(program)(fd.ones(2, 3))).splitlines()
    assert [line.split()[0] for line in lines] == ["op", "input", "mul", "exp", "sum", "output"]
    assert lines[3].split() == [
        *("exp", "%1:", "float32[2,", "3]", "%2:", "float32[2,", "3]"),
        f"test_tracing.py:{here}",
    ]


def test_a_matrix_still_has_a_trace() -> None:
    assert fd.trace(fd.eye(3)).item() == 3.0
    assert fd.ones(2, 2).trace().item() == 2.0


def test_inputs_constants_and_results_are_told_apart() -> None:
    weight = fd.ones(3, requires_grad=True)
    trace = fd.trace(lambda x, *, y: x * weight + y)(fd.ones(2, 3), y=fd.zeros(3))
    assert [value.shape for value in trace.inputs] == [(2, 3), (3,)]
    assert next(iter(trace.constants.values())) is weight and len(trace.constants) == 1
    assert names(trace) == ["mul", "add"]
    assert trace.calls[1].args[0] == (trace.calls[0].results[0], trace.inputs[1])
    assert trace.outputs == trace.calls[1].results[0]


PROGRAMS: dict[str, Any] = {
    "views": lambda x: x.reshape(-1)[1:].unsqueeze(0).expand(2, 5).t()[0, 1] + x[1, ::2],
    "in place": lambda x: (x * 1).add_(1).mul_(x).clamp_(0, 3).fill_diagonal_(2.0),
    "assigned": lambda x: assigned(x) + 0,
    "joined": lambda x: fd.cat([x, fd.stack([x[0], x[1]])], 1),
    "detached": lambda x: x.detach() * x + x.data,
    "index": lambda x: x[x.sum(1).argsort()] + x[:, (x[0] > 0).nonzero()[:1, 0]],
    "places": lambda x: fd.index_put(x * 1, (x.sum(1).argsort(),), x),
    "out": lambda x: fd.exp(x, out=fd.empty(2, 3)) + fd.clamp(x, 0, 1, out=fd.empty(2, 3)),
    "made": lambda x: x + fd.zeros_like(x) + fd.full((3,), 2.0) + fd.tensor([1.0, 2.0, 3.0]),
    "several": lambda x: {"max": x.max(1), "split": list(x.split(1))},
    "turned": lambda x: (x * 1).t_().squeeze_() * 2,
    "loss": lambda x: F.cross_entropy(F.layer_norm(x, (3,)), x.argmax(1)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "cast": lambda x: x.to(fd.float64).mean().float() + x.long(),
    "gradient": lambda x: fd.func.grad(lambda a: (a * a).exp().sum())(x) + 0,
    "einsum": lambda x: fd.einsum("ij,kj->ik", x, x) @ x,
    "normalised": lambda x: fd.linalg.norm(x, dim=1) + F.softmax(x, 1).sum(),
}


def assigned(x: Any) -> Any:
    y = x.clone()
    y[0] = 1.0
    y[:, 1] += x[:, 0]
    y[y > 1] = -1.0
    return y


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_trace_makes_the_program_again_on_other_numbers(program: str) -> None:
    function = PROGRAMS[program]
    fd.manual_seed(1)
    trace = fd.trace(function)(fd.randn(2, 3))
    other = fd.randn(2, 3)
    assert len(trace) > 0
    fd.testing.assert_close(trace(other), function(other), rtol=0, atol=0)


def test_random_numbers_are_drawn_anew() -> None:
    trace = fd.trace(lambda x: x * fd.rand(3) + fd.rand_like(x))(fd.ones(3))
    fd.manual_seed(3)
    first = trace(fd.ones(3))
    assert not fd.equal(first, trace(fd.ones(3)))
    fd.manual_seed(3)
    assert fd.equal(first, trace(fd.ones(3)))


def test_a_tensor_that_is_given_twice_is_two_inputs() -> None:
    x = fd.ones(2, requires_grad=True)
    trace = fd.trace(lambda a, b, *, c: a * 2 + b * 3 + c)(x, x, c=x)
    assert len(trace.inputs) == 3 and not trace.constants
    given = [fd.full((2,), value, requires_grad=True) for value in (1.0, 10.0, 100.0)]
    result = trace(*given[:2], c=given[2])
    assert result.tolist() == [132.0, 132.0]
    result.sum().backward()
    assert [one.grad.tolist() for one in given] == [[2.0, 2.0], [3.0, 3.0], [1.0, 1.0]]


def test_a_module_s_parameters_are_constants_and_its_gradients_flow() -> None:
    model = fd.nn.Sequential(fd.nn.Linear(3, 4), fd.nn.ReLU(), fd.nn.Linear(4, 1))
    trace = fd.trace(model)(fd.ones(2, 3))
    assert {id(one) for one in trace.constants.values()} == {id(p) for p in model.parameters()}
    trace(fd.ones(2, 3)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_other_shapes_than_the_traced_ones_are_refused() -> None:
    trace = fd.trace(lambda x: x + 1)(fd.ones(2))
    with pytest.raises(ValueError, match=r"traced with float32\[2\], got float32\[3\]"):
        trace(fd.ones(3))
    with pytest.raises(TypeError, match="has 1 inputs, got 2 tensors"):
        trace(fd.ones(2), fd.ones(2))


def test_nothing_is_recorded_after_a_trace_or_an_error_in_it() -> None:
    from fastdist.graph.modes import modes

    def wrong(x: Any) -> Any:
        raise KeyError(x.exp())

    with pytest.raises(KeyError):
        fd.trace(wrong)(fd.ones(1))
    assert (modes.tracers, modes.special) == (0, 0)
    trace = fd.trace(lambda x: x.exp())(fd.ones(2))
    fd.ones(2).exp()
    assert names(trace) == ["exp"]


def test_a_trace_inside_of_a_trace_records_for_the_inner_one() -> None:
    inner: list[Any] = []

    def program(x: Any) -> Any:
        inner.append(fd.trace(lambda a: a.exp())(x))
        return x * 2

    assert names(fd.trace(program)(fd.ones(2))) == ["mul"]
    assert names(inner[0]) == ["exp"]


def test_an_op_is_recorded_in_the_dtype_of_autocast() -> None:
    def program(x: Any, y: Any) -> Any:
        with fd.autocast("cpu", dtype=fd.float16):
            return x @ y

    trace = fd.trace(program)(fd.ones(2, 2), fd.ones(2, 2))
    assert trace(fd.ones(2, 2), fd.ones(2, 2)).dtype is fd.float16


def test_what_a_composite_works_out_of_numbers_is_no_constant() -> None:
    # `nonzero` calls another op to get the indices of a mask as numbers.
    trace = fd.trace(lambda x: (x > 0).nonzero())(fd.tensor([1.0, -1.0]))
    assert not trace.constants and names(trace) == ["gt", "nonzero"]
    assert trace(fd.tensor([-1.0, 1.0])).tolist() == [[1]]


def test_a_call_in_place_is_recorded_with_what_it_was_given() -> None:
    trace = fd.trace(lambda x: x.clone().mul_(3).add_(x, alpha=2))(fd.ones(2))
    assert [len(call.args[0]) for call in trace.calls] == [1, 2, 2]
    assert "mul_    %1: float32[2]                  %1" in str(trace)
    assert trace(fd.full((2,), 2.0)).tolist() == [10.0, 10.0]


def test_numbers_that_a_program_reads_are_said_to_be_baked_in() -> None:
    def program(x: Any) -> Any:
        y = x * x.sum().item()
        if x[0] > 0:
            y = y + float(x.mean())
        return y, x.tolist()

    trace = fd.trace(program)(fd.tensor([1.0, 2.0]))
    first = program.__code__.co_firstlineno
    read = [(call.op, call.note, int(call.site.rpartition(":")[2]) - first) for call in trace]
    assert [one for one in read if one[1]] == [
        ("item", "3.0, baked in", 1),
        ("bool", "True, baked in", 2),
        ("float", "1.5, baked in", 3),
        ("tolist", "numbers, baked in", 4),
    ]
    assert "item %1: float32[] 3.0, baked in test_tracing.py" in " ".join(str(trace).split())
    assert trace(fd.tensor([-1.0, 2.0]))[0].tolist() == [-1.5, 7.5]


def test_numbers_are_read_as_ever_when_nobody_records() -> None:
    before = fd.Tensor.item
    fd.trace(lambda x: x.item())(fd.ones(()))
    assert fd.Tensor.item is before and fd.ones(()).item() == 1.0


def test_what_a_library_function_reads_is_no_number_of_the_program() -> None:
    trace = fd.trace(fd.linalg.inv)(fd.eye(2))
    assert not any(call.note for call in trace)


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        (lambda x: F.linear(x, x), "linear"),
        (lambda x: F.cross_entropy(x, fd.tensor([0, 1])), "cross_entropy"),
        (lambda x: F.layer_norm(x, (2,)), "layer_norm"),
        (lambda x: fd.linalg.inv(x + 2 * fd.eye(2)), "inv"),
        (lambda x: x.clamp(0, 1), "clamp"),
        (lambda x: x.std(), "std"),
        (lambda x: x[0], "select"),
        (lambda x: F.max_pool1d(x, 2), "max_pool1d"),
        (lambda x: F.conv1d(x[None], x[:, :, None]), "conv1d"),
    ],
)
def test_a_part_of_a_function_goes_by_the_function_s_name(program: Any, shown: str) -> None:
    trace = fd.trace(program)(fd.ones(2, 2))
    assert shown in names(trace)
    inner = [one for one in names(trace) if one in OPS and not OPS[one].homes]
    assert inner == []
