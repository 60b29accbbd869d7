"""Anomaly mode names the op whose gradient failed and the line that called the op."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, detect_anomaly, set_detect_anomaly
from fastdist.core.folded_frames import OUR_FILES
from fastdist.graph import anomaly
from fastdist.graph.modes import modes
from fastdist.utils import fold_tracebacks


def not_a_number(x: Tensor) -> Tensor:
    return (x * 0.0).sqrt() * 0.0


def test_nan_is_found_with_the_forward_call_that_made_it() -> None:
    x = fd.ones(2, requires_grad=True)
    with detect_anomaly():
        y = not_a_number(x).sum()
        with (
            pytest.warns(
                UserWarning, match=r"(?s)^Error detected in SqrtBackward0\..*not_a_number"
            ),
            pytest.raises(RuntimeError, match=r"^Function 'SqrtBackward0' returned nan values in"),
        ):
            y.backward()


def warning_of_a_layer() -> warnings.WarningMessage:
    """Return the warning for a layer whose gradient is NaN."""
    layer = fd.nn.Linear(2, 2)
    with detect_anomaly():
        y = (layer(fd.ones(2)) * float("nan")).sum()
        with (
            pytest.warns(UserWarning, match=r"^Error detected in") as caught,
            pytest.raises(RuntimeError),
        ):
            y.backward()
    return caught[0]


def test_the_warning_shows_the_users_lines_only() -> None:
    warning = warning_of_a_layer()
    assert warning.filename == __file__
    assert "in warning_of_a_layer" in str(warning.message).splitlines()[-2]
    assert f'File "{OUR_FILES[0]}' not in str(warning.message)
    before = fold_tracebacks(False)
    try:
        assert f'File "{OUR_FILES[0]}' in str(warning_of_a_layer().message)
    finally:
        fold_tracebacks(before)


def test_sparse_gradients_are_looked_at() -> None:
    table, places = fd.ones(3, 2, requires_grad=True), fd.tensor([0, 2])
    with detect_anomaly():
        fd.nn.functional.embedding(places, table, sparse=True).sum().backward()
        rows = fd.nn.functional.embedding(places, table, sparse=True)
        with (
            pytest.warns(UserWarning, match="Error detected in SqrtBackward0"),
            pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th"),
        ):
            not_a_number(rows).sum().backward()


def test_nan_passes_where_only_errors_are_watched() -> None:
    x = fd.ones(2, requires_grad=True)
    with detect_anomaly(check_nan=False):
        not_a_number(x).sum().backward()
    assert x.grad.isnan().all().item()


def test_graph_recorded_before_the_mode_has_no_traceback() -> None:
    y = not_a_number(fd.ones(2, requires_grad=True)).sum()
    with (
        detect_anomaly(),
        pytest.warns(UserWarning, match="No forward pass information available"),
        pytest.raises(RuntimeError, match="returned nan values"),
    ):
        y.backward()


def lay_side_by_side(x: Tensor) -> Tensor:
    return fd.cat([x, x])


def take_apart(x: Tensor) -> Tensor:
    return (x * 1.0).split(1)[1]


def write_over(x: Tensor) -> Tensor:
    return fd.zeros(2).copy_(x)


def write_into_a_part(x: Tensor) -> Tensor:
    y = x * 1.0
    y[0] = x[0]
    return y


@pytest.mark.parametrize(
    "make", [lay_side_by_side, take_apart, write_over, write_into_a_part], ids=lambda f: f.__name__
)
def test_nodes_that_are_written_by_hand_know_their_call(make: Callable[[Tensor], Tensor]) -> None:
    with detect_anomaly():
        y = make(fd.ones(2, requires_grad=True))
        y.register_hook(lambda g: g * float("nan"))
        text = rf"(?s)^Error detected in {y.grad_fn.name()}\. .*in {make.__name__}"
        with (
            pytest.warns(UserWarning, match=text),
            pytest.raises(RuntimeError, match=f"^Function '{y.grad_fn.name()}' returned nan"),
        ):
            y.sum().backward()


def test_error_in_a_function_comes_with_its_forward_call() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            raise KeyError("mine")

    with detect_anomaly():
        y = Fails.apply(fd.ones(2, requires_grad=True)).sum()
        with (
            pytest.warns(UserWarning, match=r"(?s)FailsBackward.*Fails\.apply"),
            pytest.raises(KeyError),
        ):
            y.backward()


def test_mode_ends_with_its_block_and_ops_are_fast_again() -> None:
    with detect_anomaly(), set_detect_anomaly(False):
        assert modes.tracers == 0
    assert (modes.tracers, modes.special) == (0, 0)


def test_gradients_are_what_they_are_without() -> None:
    x = fd.tensor([1.0, 2.0], requires_grad=True)
    with detect_anomaly():
        y = x * x
        y[0].mul_(3.0)
        (y @ y).backward()
    assert x.grad.tolist() == [36.0, 32.0]


def test_ops_are_told_once_though_two_threads_switch_the_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, other = anomaly.count_tracers, threading.Thread(target=set_detect_anomaly, args=[True])

    def preempted(change: int) -> None:
        count(change)
        if other.ident is None:
            other.start()
            other.join(0.1)  # the other thread waits until this switch is over

    before = modes.special
    monkeypatch.setattr(anomaly, "count_tracers", preempted)
    set_detect_anomaly(True)
    other.join(10.0)
    set_detect_anomaly(False)
    assert modes.special == before


def test_nodes_are_noted_in_the_mode_though_their_saved_tensors_are_packed_as_well() -> None:
    x = fd.tensor([0.0], requires_grad=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with detect_anomaly(), fd.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            y = (x / x).sum()
        with detect_anomaly(), pytest.raises(RuntimeError, match="returned nan values"):
            y.backward()
    (text,) = [str(one.message) for one in told]
    # The text is formatted like a traceback: each frame with its source line.
    assert "Traceback of forward call" in text and "\n    y = (x / x).sum()\n" in text
