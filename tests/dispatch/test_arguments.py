"""Errors of calls with arguments of the wrong kind."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.dispatch.composite import checked
from fastdist.tensor.tensor import Tensor

x = fastdist.ones(2, 3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: fastdist.stack([None]), r"stack\(\): argument 'tensors' .* must be a sequence of"),
        (
            lambda: fastdist.zeros(2, dtype="x"),
            r"argument 'dtype' \(position 2\) must be a dtype such as fastdist.float32",
        ),
        (
            lambda: fastdist.zeros(10**30),
            r"zeros\(\): argument 'size' \(position 1\) is out of range: int 10",
        ),
        (
            lambda: fastdist.t(3),
            r"t\(\): argument 'input' \(position 1\) must be Tensor, not int 3",
        ),
        (
            lambda: fastdist.zeros_like("a"),
            r"argument 'input' \(position 1\) must be Tensor, not str 'a'",
        ),
        (lambda: fastdist.add(x, 1, out=3), r"add\(\): argument 'out' must be a Tensor, not int"),
        (
            lambda: fastdist.add(x, 1, alpha="q"),
            r"argument 'alpha' \(position 3\) must be a number, not str 'q'",
        ),
        (lambda: x.reshape("a"), r"reshape\(\): sizes must be integers, got 'a'"),
        (lambda: fastdist.zeros((1,), (2,)), "sizes must be integers, got"),
        (lambda: x[2**70], "index 1180591620717411303424 is out of bounds for dimension 0"),
        (
            lambda: x.softmax(-1, dtype=np.ones(2)),
            r"argument 'dtype' \(position 3\) must be a dtype",
        ),
        (lambda: x.size(5), r"Dimension out of range \(expected to be in range of \[-2, 1\]"),
        (lambda: x.to(3.5), "Invalid device: 3.5; expected such as 'cpu'"),
    ],
)
def test_the_argument_at_fault_is_named(call: Callable[[], Any], text: str) -> None:
    with pytest.raises((TypeError, IndexError, RuntimeError), match=text):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: fastdist.selu_([x]), lambda: fastdist.nn.functional.relu6([x], True),
        lambda: fastdist.fill_([x], 2), lambda: fastdist.zero_(3), lambda: fastdist.detach_([x]),
        lambda: fastdist.as_strided_(3, (1,), (1,)), lambda: fastdist.detach([x]),
        lambda: fastdist.get_device([x]),
    ],
)  # fmt: skip
def test_functions_written_by_hand_name_what_is_no_tensor(call: Callable[[], Any]) -> None:
    with pytest.raises(
        TypeError, match=r"\(\): argument 'input' \(position 1\) must be Tensor, not"
    ):
        call()


@pytest.mark.parametrize(
    ("fits", "call", "text"),
    [
        (True, lambda given: x.sum(1, keepdim=given), "must be a bool, not int 1"),
        (True, lambda given: x.amax(1, keepdim=given), "must be a bool, not int 1"),
        (True, lambda given: x.sort(1, descending=given), "must be a bool, not int 1"),
        (True, lambda given: fastdist.unique(x, given), "must be a bool, not int 1"),
        (1, lambda given: x.narrow(0, 0, given), "must be an integer, not bool True"),
        (1, x.diagonal, "must be an integer, not bool True"),
        (1, lambda given: fastdist.tril(x, given), "must be an integer, not bool True"),
    ],
)
def test_a_bool_is_no_int_and_an_int_is_no_bool(
    fits: Any, call: Callable[[Any], Any], text: str
) -> None:
    other = 1 if fits is True else True
    for _ in range(2):  # the cache must not confuse the equal values 1 and True
        call(fits)
        with pytest.raises(TypeError, match=text):
            call(other)


def test_a_tensor_without_axes_stands_for_a_number_of_its_kind() -> None:
    places = fastdist.tensor(1)
    for _ in range(2):  # an answer cached by class would be wrong, because the dtype decides
        assert fastdist.tril(x, places).tolist() == fastdist.tril(x, 1).tolist()
        with pytest.raises(
            TypeError, match=r"^tril\(\): argument 'diagonal' \(position 2\) must be"
        ):
            fastdist.tril(x, fastdist.tensor(1.0))
        with pytest.raises(TypeError, match=r"^kl_div\(\): argument 'log_target' \(position 6\)"):
            fastdist.nn.functional.kl_div(x, x, None, None, "sum", fastdist.tensor([True]))


@pytest.mark.parametrize(
    ("call", "number"),
    [
        (lambda given: fastdist.nn.functional.elu(-x, given), 0.5),
        (lambda given: fastdist.nn.functional.elu_(-x, given), 0.5),
        (lambda given: fastdist.add(x, x, alpha=given), 2),
        (lambda given: x.clone().add_(x, alpha=given), 2),
        (lambda given: fastdist.nn.functional.hardshrink(x, given), 2.0),
        (lambda given: fastdist.diag(x, given), 1),
        (x.norm, 3.0),
    ],
)
def test_a_tensor_in_the_place_of_a_number_is_that_number(
    call: Callable[[Any], fastdist.Tensor], number: float
) -> None:
    for _ in range(2):
        assert call(fastdist.tensor(number)).tolist() == call(number).tolist()


@pytest.mark.parametrize(
    ("call", "given"),
    [
        (lambda given: fastdist.diag(x, given), np.int64(1)),
        (lambda given: x.roll(given, given), np.int64(1)),
        (lambda given: x.as_strided((2, 2), (1, 1), given), np.int64(1)),
        (lambda given: x.clone().random_(given), np.int64(1)),
        (lambda given: fastdist.randint(given, (3,)), np.int64(1)),
        (lambda given: fastdist.nn.functional.max_pool2d(x[None], 1, given), np.int64(1)),
        (lambda given: fastdist.nn.functional.avg_pool2d(x[None], 1, given), np.int64(1)),
        (lambda given: fastdist.nn.functional.elu(-x, given), np.float32(0.5)),
        (lambda given: fastdist.nn.functional.pad(x, (1, 1), value=given), np.bool_(True)),
    ],
)
def test_a_number_of_numpy_is_that_number(
    call: Callable[[Any], fastdist.Tensor], given: np.generic
) -> None:
    for _ in range(2):
        found, expected = call(given), call(given.item())
        assert found.tolist() == expected.tolist()
        assert found.dtype is expected.dtype


def test_switches_that_are_python_s_own_take_numbers() -> None:
    heads = fastdist.nn.MultiheadAttention(4, 2, add_zero_attn=0)  # type: ignore[arg-type]
    q = fastdist.ones(3, 1, 4)
    options: dict[str, Any] = {"need_weights": 1, "average_attn_weights": 0}
    assert heads(q, q, q, **options)[1].shape == (1, 2, 3, 3)
    blind = fastdist.full((3, 3), float("-inf")).triu(1)
    options = {"need_weights": 0, "is_causal": 1}
    found = heads(q, q, q, attn_mask=blind, **options)
    assert found[0].tolist() == heads(q, q, q, attn_mask=blind, need_weights=False)[0].tolist()
    assert found[1] is None
    likelihood = fastdist.nn.functional.gaussian_nll_loss
    assert likelihood(x, x, x, 1).item() == likelihood(x, x, x, True).item()


def test_a_number_with_a_gradient_is_no_number() -> None:
    p = fastdist.tensor(0.5)
    fastdist.nn.functional.dropout(x, p)
    with pytest.raises(
        TypeError, match=r"^dropout\(\): argument 'p' \(position 2\) must be a number"
    ):
        fastdist.nn.functional.dropout(x, p.requires_grad_())


def test_draws_go_on_after_a_size_that_is_none() -> None:
    with pytest.raises(TypeError):
        fastdist.default_generator.reserve(1.5)
    assert fastdist.rand(3).shape == (3,)


def test_checked_keeps_an_error_that_was_raised_with_words() -> None:
    with pytest.raises(RuntimeError, match=r"torch.clamp: At least one of 'min' or 'max'"):
        fastdist.clamp(x)


def test_checked_keeps_an_error_where_all_arguments_fit() -> None:
    @checked
    def broken(input: Tensor) -> Any:
        return input.no_such_thing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="no_such_thing"):
        broken(x)


def test_checked_functions_are_found_again_by_pickle() -> None:
    assert pickle.loads(pickle.dumps(fastdist.clamp)) is fastdist.clamp
    assert pickle.loads(pickle.dumps(fastdist.zeros)) is fastdist.zeros


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_extreme_of_one_tensor_is_short_and_heard_as_the_function(name: str) -> None:
    heard: list[Any] = []

    class Mode(fastdist.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            heard.append(func)
            return func(*args, **(kwargs or {}))

    x = fastdist.tensor([1.0, 3.0, 3.0], requires_grad=True)
    found = getattr(x, name)()
    assert type(found.grad_fn).__name__ == f"{name.title()}Backward1"
    with Mode():
        assert getattr(fastdist, name)(x).item() == found.item()
    assert heard == [getattr(fastdist, name)]
    with pytest.raises(ValueError, match=rf"^{name}\(\): Expected reduction dim to be specified"):
        getattr(fastdist.zeros(2, 0), name)()
