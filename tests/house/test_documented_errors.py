"""The most used names document the errors that wrong arguments raise, and calls raise these errors.

Each line of `documented_errors.txt` has a name, an error in the docstring of this name, and a call
that raises the error.
"""

from __future__ import annotations

import builtins
import functools
import pickle
import re
import traceback
from pathlib import Path
from typing import NamedTuple

from fastdist.core import errors
from fastdist.core.folded_frames import OUR_FOLDER
from fastdist.namespace.names import words
from tests.house.test_examples import GIVEN, NAMES, doc_of

ROWS = [
    line.split("  ", 2)
    for line in Path(__file__).with_name("documented_errors.txt").read_text().splitlines()
]
# No argument of these functions is wrong: they take any arguments, or none.
NO_ERRORS = words(
    """
    Future Tensor.bool Tensor.cpu Tensor.detach Tensor.dim Tensor.double Tensor.element_size
    Tensor.float Tensor.half Tensor.int Tensor.is_complex Tensor.is_floating_point Tensor.long
    Tensor.numel Tensor.tolist autograd.Function cuda.is_available
    distributed.autograd.current_context_id distributed.autograd.is_available
    distributed.is_available distributed.is_initialized distributed.rpc.add_silence_hook
    distributed.rpc.allow distributed.rpc.export distributed.rpc.functions.async_execution dtype
    enable_grad get_default_device get_default_dtype inference_mode is_grad_enabled is_tensor
    nn.Identity nn.init.zeros_ no_grad
    """
)
# Errors that need a GPU, a full disk, a group or a backward pass.
ELSEWHERE = {
    "Tensor.data_ptr": {"DeviceError"},
    "nn.parallel.DistributedDataParallel": {"RuntimeError", "ValueError"},
    "save": {"PermissionError", "IsADirectoryError", "OSError"},
    "utils.checkpoint.checkpoint": {"CheckpointError"},
}


def errors_of(name: str) -> set[str]:
    """Return the errors in the entry `Raises` of a docstring."""
    entries = re.findall(r"^Raises  .*\n(?: .*\n)*", doc_of(name) + "\n", re.MULTILINE)
    return set(re.findall(r"\b[A-Z]\w*(?:Error|Incomplete)\b", "".join(entries)))


def class_named(name: str) -> type[BaseException]:
    places = (builtins, errors, pickle)
    found: type[BaseException] = next(getattr(one, name) for one in places if hasattr(one, name))
    return found


# The errors of these names show frames of fastdist: methods and constructors whose time matters.
SHOWN = words("Tensor.data_ptr compile optim.Optimizer utils.data.Dataset")


class Raised(NamedTuple):
    """The class of a call's error, its frames in fastdist, and the other errors that are shown."""

    kind: type[BaseException]
    num_frames: int
    causes: tuple[BaseException, ...]


@functools.cache
def raised_by(call: str) -> Raised:
    try:
        eval(call, {"__name__": __name__, **GIVEN})
    except Exception as error:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        context = None if error.__suppress_context__ else error.__context__
        causes = tuple(one for one in (error.__cause__, context) if one is not None)
        return Raised(type(error), sum(file.startswith(OUR_FOLDER) for file in files), causes)
    return Raised(type(None), 0, ())  # type: ignore[arg-type]


def test_documented_errors_are_raised() -> None:
    found = [
        f"{call} raised {raised_by(call).kind.__name__}, not {error}"
        for _, error, call in ROWS
        if not issubclass(raised_by(call).kind, class_named(error))
    ]
    assert found == []


def test_documented_errors_show_neither_frames_of_fastdist_nor_private_causes() -> None:
    assert [call for _, _, call in ROWS if raised_by(call).causes] == []
    assert {name for name, _, call in ROWS if raised_by(call).num_frames} == SHOWN


def test_errors_that_are_raised_are_documented() -> None:
    silent = {(name, error) for name, error, _ in ROWS if error not in errors_of(name)}
    assert silent == set()
    unknown = {name for name in NAMES if bool(errors_of(name)) == (name in NO_ERRORS)}
    assert unknown == set()


def test_each_documented_error_has_a_call() -> None:
    called = {(name, error) for name, error, _ in ROWS}
    alone = [name for name in NAMES if not name.startswith("distributed.")]
    documented = {(n, error) for n in alone for error in errors_of(n) - ELSEWHERE.get(n, set())}
    assert documented - called == set()
