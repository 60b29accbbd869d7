"""Functions that take several tensors, given something else, raise one error that explains it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.core.folded_frames import OUR_FOLDER
from fastdist.utils import fold_tracebacks

x = fd.ones(2, requires_grad=True)
WRONG: dict[str, Any] = {
    "numbers": [1, 2],
    "a tensor and a number": [x, 2],
    "text": ["a"],
    "None in a list": [None],
    "a number": 3,
    "None": None,
}
# These take one Tensor as well, or other values of the table.
rnn, parametric = nn.utils.rnn, nn.utils
OTHERS: dict[str, Callable[[Any], object]] = {
    "einsum": lambda given: fd.einsum("i,i", *(given if isinstance(given, list) else [given])),
    "multi_dot": fd.linalg.multi_dot,
    "pad_sequence": rnn.pad_sequence,
    "pack_sequence": rnn.pack_sequence,
    "unpad_sequence": lambda given: rnn.unpad_sequence(given, fd.tensor([1])),
    "parameters_to_vector": parametric.parameters_to_vector,
    "vector_to_parameters": lambda given: parametric.vector_to_parameters(fd.ones(2), given),
    "clip_grad_norm_": lambda given: parametric.clip_grad_norm_(given, 1.0),
    "clip_grad_value_": lambda given: parametric.clip_grad_value_(given, 1.0),
    "clip_grads_with_norm_": lambda given: parametric.clip_grads_with_norm_(
        given, 1.0, fd.ones(())
    ),
    "get_total_norm": parametric.get_total_norm,
    "backward": fd.autograd.backward,
    "grad of outputs": lambda given: fd.autograd.grad(given, x),
    "grad by inputs": lambda given: fd.autograd.grad(x.sum(), given),
    "SGD": lambda given: fd.optim.SGD(given, lr=0.1),
    "TensorDataset": fd.utils.data.TensorDataset,
    "stack_module_state": fd.func.stack_module_state,
    "func.vjp": lambda given: fd.func.vjp(fd.sin, given),
    "func.jvp": lambda given: fd.func.jvp(fd.sin, given, given),
    "jacobian": lambda given: fd.autograd.functional.jacobian(fd.sin, given),
}
# Python's messages for values that a function does not expect: they explain nothing.
UNEXPLAINED = ("not iterable", "has no attribute", "has no len", "not subscriptable")


def functions_of_lists(module: ModuleType) -> dict[str, Callable[[Any], object]]:
    """Return the functions of a module whose first parameter is `tensors` or `*tensors`."""
    found: dict[str, Callable[[Any], object]] = {}
    for name in dir(module):
        function = getattr(module, name)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        first = next(iter(inspect.signature(function).parameters.values()), None)
        if first is not None and first.name == "tensors":
            found[name] = function
    return found


CALLS = functions_of_lists(fd) | OTHERS


def fault_of(call: Callable[[], object]) -> str:
    """Describe the fault of a call's error; return an empty text if there is none."""
    try:
        call()
    except Exception as error:
        is_shown = error.__context__ is not None and not error.__suppress_context__
        if error.__cause__ is not None or is_shown:
            return f"shows a private cause: {error.__cause__ or error.__context__!r}"
        frames = traceback.extract_tb(error.__traceback__)
        if any(frame.filename.startswith(OUR_FOLDER) for frame in frames):
            return f"shows frames of fastdist: {frames[-1]}"
        if any(text in str(error) for text in UNEXPLAINED):
            return f"does not explain: {error}"
        return ""
    return "raised nothing"


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CALLS)
def test_one_error_names_what_was_given(name: str) -> None:
    found = {
        what: fault_of(lambda given=given: CALLS[name](given)) for what, given in WRONG.items()
    }
    assert {what: fault for what, fault in found.items() if fault} == {}


def test_the_functions_are_found() -> None:
    assert {"cat", "stack", "hstack", "block_diag", "meshgrid", "atleast_2d"} <= {*CALLS}


def test_the_error_names_the_first_element_that_is_no_tensor() -> None:
    words = r"^cat\(\): argument 'tensors' \(position 1\) must be a sequence of Tensors, not list"
    with pytest.raises(TypeError, match=words + r": element 1 is str 'a'$"):
        fd.cat([x, "a", *([x] * 20)])  # type: ignore[list-item]
    with pytest.raises(
        TypeError, match=r"^clip_grad_norm_\(\): argument 'parameters' must be .* 3"
    ):
        nn.utils.clip_grad_norm_(3, 1.0)  # type: ignore[arg-type]


def test_the_cause_is_shown_with_all_frames() -> None:
    before = fold_tracebacks(False)
    try:
        with pytest.raises(TypeError) as caught:
            fd.cat([1, 2])  # type: ignore[list-item]
    finally:
        fold_tracebacks(before)
    assert isinstance(caught.value.__cause__, AttributeError)


def test_the_error_of_a_users_class_remains_the_cause() -> None:
    class Size:
        def __index__(self) -> int:
            raise ValueError("no size yet")

    with pytest.raises((TypeError, ValueError)) as caught:
        fd.split(x, [Size()])  # type: ignore[list-item]
    seen = [str(caught.value), str(caught.value.__cause__)]
    assert "no size yet" in " ".join(seen)
