"""Tracebacks end where user code called fastdist, unless all frames are requested."""

from __future__ import annotations

import contextlib
import inspect
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist.core.folded_frames import error_text, traceback_text
from fastdist.utils import fold_tracebacks


@pytest.fixture(autouse=True)
def folding() -> Iterator[None]:
    before = fold_tracebacks(True)
    yield
    fold_tracebacks(before)


def frames_of(call: Callable[[], object]) -> list[str]:
    """Return the file name of each traceback frame that is not in this file."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    names = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    return [name for name in names if name != __file__]


x = fd.ones(3, requires_grad=True)


def step_of(kind: type[fd.optim.Optimizer]) -> None:
    """Run an optimiser step that fails on a sparse gradient or on an unknown line search."""
    parameter = fd.ones(3, requires_grad=True)
    parameter.grad = fd.ones(3).to_sparse()
    optimizer = kind([parameter])
    optimizer.param_groups[0]["line_search_fn"] = "unknown"
    optimizer.step(parameter.sum)


def plateau() -> fd.optim.lr_scheduler.ReduceLROnPlateau:
    return fd.optim.lr_scheduler.ReduceLROnPlateau(fd.optim.SGD([x], 0.1))


CALLS: dict[str, Callable[[], object]] = {
    "a composite": lambda: fd.cat([1, 2]),
    "a structured op": lambda: fd.softmax(fd.ones(3), 7),
    "a layer": lambda: fd.nn.Sequential(fd.nn.Linear(3, 4))(fd.ones(2)),
    "reshape": lambda: fd.reshape(x, (2, 2)),
    "a method of shapes": lambda: x.reshape(2, 2),
    "a subscript": lambda: x[7],
    "a tensor as subscript": lambda: x[fd.tensor([7])],
    "a subscript to assign to": lambda: fd.ones(3).__setitem__(7, 1.0),
    "the step of an optimiser": lambda: step_of(fd.optim.Adam),
    "the step of an optimiser of its own": lambda: step_of(fd.optim.LBFGS),
    "backward": lambda: fd.autograd.backward((x * 2,)),
    "grad": lambda: fd.autograd.grad(fd.ones(2), x),
    "vmap": lambda: fd.func.vmap(fd.dot)(fd.ones(2, 4), fd.ones(3, 4)),
    "checkpoint": lambda: fd.utils.checkpoint.checkpoint(fd.cat, [1, 2], use_reentrant=False),
    "load": lambda: fd.load(b"no file"),
    "save": lambda: fd.save(fd.ones(2), 3),
    "rpc_sync": lambda: fd.distributed.rpc.rpc_sync("nobody", print),
    "init_rpc": lambda: fd.distributed.rpc.init_rpc("", rank=-3),
    "a distribution": lambda: fd.distributions.Normal(0.0, -1.0),
    "log_prob": lambda: fd.distributions.Normal(0.0, 1.0).log_prob("x"),
    "a transform": lambda: fd.distributions.ExpTransform()("x"),
    "kl_divergence": lambda: fd.distributions.kl_divergence(x, x),
    "a scheduler": lambda: fd.optim.lr_scheduler.StepLR(3, 1),
    "the step of a scheduler": lambda: plateau().step("x"),
    "add_param_group": lambda: fd.optim.SGD([x], 0.1).add_param_group({"params": [x]}),
    "an older name of init": lambda: fd.nn.init.xavier_normal(x),
    "clip_grad_norm": lambda: fd.nn.utils.clip_grad_norm([3], 1),
    "skip_init": lambda: fd.nn.utils.skip_init(fd.nn.Linear, 3),
    "a child of a module": lambda: fd.nn.Sequential(fd.nn.Identity())[4],
    "an attribute of a module": lambda: setattr(fd.nn.Linear(2, 2), "weight", 3),
    "register_buffer": lambda: fd.nn.Linear(2, 2).register_buffer("a.b", x),
    "load_state_dict": lambda: fd.nn.Linear(2, 2).load_state_dict({"a": x}),
    "a library": lambda: fd.library.Library("mine", "DEF").define("x"),
    "a custom op": lambda: fd.library.custom_op("a::b", mutates_args=())(lambda x: x),
    "gradcheck": lambda: fd.autograd.gradcheck(lambda x: x, fd.ones(2)),
    "sparse.mm": lambda: fd.sparse.mm(x, x),
    "lists of tensors": lambda: fd._foreach_add([x], [fd.ones(2)]),
    "a missing name": lambda: fd.nosuch,
    "a missing name of a module": lambda: fd.nn.nosuch,
    "item": x.item,
    "bool": lambda: bool(x),
    "float": lambda: float(x),
    "copy_": lambda: fd.ones(3).copy_(fd.ones(2)),
    "fill_": lambda: fd.ones(3).fill_("x"),
    "a wrong default": lambda: fd.set_default_dtype(fd.int32),
    "a class that does not exist here": fd.export.ExportedProgram,
    "a file that does not exist": lambda: fd.load("/no/such/file"),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_shows_no_frame_of_ours(name: str) -> None:
    assert frames_of(CALLS[name]) == []


# Calls that are valid for an index of 1, and that raise an error for an index of 3.
BY_INDEX: dict[str, Callable[[fd.Tensor], object]] = {
    "gather": lambda i: fd.gather(fd.ones(3), 0, i),
    "gather that records": lambda i: fd.gather(x, 0, i),
    "gather to out": lambda i: fd.gather(fd.ones(3), 0, i, out=fd.empty(1)),
    "scatter": lambda i: fd.scatter(fd.ones(3), 0, i, fd.ones(1)),
    "scatter of a number": lambda i: fd.scatter(fd.ones(3), 0, i, 1.0),
    "scatter in place": lambda i: fd.ones(3).scatter_(0, i, 1.0),
    "index_select": lambda i: fd.ones(3).index_select(0, i),
    "embedding": lambda i: fd.nn.functional.embedding(i, fd.ones(3, 2)),
    "a division": lambda i: fd.tensor([1]) // (3 - i),
    "a division in place": lambda i: fd.tensor([1]).floor_divide_(3 - i),
    "one_hot": lambda i: fd.nn.functional.one_hot(i, 3),
}


@pytest.mark.parametrize("is_profiled", [False, True])
@pytest.mark.parametrize("name", BY_INDEX)
def test_an_error_shows_no_frame_of_ours_after_valid_calls(name: str, is_profiled: bool) -> None:
    """After the first calls with some layouts, a short path runs the kernel that raises."""
    with fd.profiler.profile() if is_profiled else contextlib.nullcontext():
        for _ in range(3):
            BY_INDEX[name](fd.tensor([1]))
        shown = frames_of(lambda: BY_INDEX[name](fd.tensor([3])))
    assert shown == []


OPERATIONS: dict[str, Callable[[fd.Tensor], object]] = {
    "a function": lambda y: fd.add(x, y),
    "a function that lacks an argument": fd.softmax,
    "a function of functional": lambda y: fd.nn.functional.relu(y[3]),
    "an operator": lambda y: x - y,
    "a reflected operator": lambda y: "1" - y,
    "an operator in place": lambda y: fd.ones(3).__imul__(y),
    "a method in place": lambda y: fd.ones(3).add_(y),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_error_of_an_op_shows_no_generated_line(name: str) -> None:
    """The first call of an operator creates its code; the second runs its short path."""
    for _ in range(2):
        assert frames_of(lambda: OPERATIONS[name](fd.ones(2))) == []
        assert x.add(x).sub(x).sum().item() == 3


def test_frames_of_a_users_code_stay_where_they_are_called_from_ours() -> None:
    class Failing(fd.nn.Module):
        def forward(self, x: fd.Tensor) -> fd.Tensor:
            return x + fd.ones(7)

    with pytest.raises(RuntimeError, match="must match") as caught:
        fd.nn.Sequential(fd.nn.Identity(), Failing())(fd.ones(3))
    trace = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in trace if frame.filename == __file__][-1] == "forward"
    assert not [frame for frame in trace if "/fastdist/" in frame.filename and frame.line]


def test_an_error_that_was_folded_is_explained_once() -> None:
    with pytest.raises(ValueError, match=r"^what a user says$"):
        fd.func.vmap(_refuse)(fd.ones(2))


def _refuse(x: fd.Tensor) -> fd.Tensor:
    raise ValueError("what a user says")


def test_all_frames_stay_when_they_are_wanted() -> None:
    assert fold_tracebacks(False) is True
    assert len(frames_of(CALLS["a composite"])) >= 2
    assert fold_tracebacks(True) is False


def _error_of(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


def test_the_text_of_a_traceback_has_only_the_frames_of_a_user() -> None:
    fold_tracebacks(False)
    error = _error_of(lambda: fd.nn.Linear(3, 4)(fd.ones(2)))
    whole = traceback_text(error)
    assert whole == "".join(traceback.format_exception(error)).rstrip("\n")
    assert "/fastdist/" in whole
    fold_tracebacks(True)
    text = traceback_text(error)
    assert "/fastdist/" not in text and "in <lambda>" in text
    assert text.splitlines()[-1] == whole.splitlines()[-1]


def test_the_text_of_an_error_raised_inside_fastdist_says_how_to_see_where() -> None:
    assert traceback_text(ValueError("never raised")) == "ValueError: never raised"
    fold_tracebacks(False)
    error = _error_of(lambda: fd.softmax(fd.ones(3), 7))
    fold_tracebacks(True)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    inside = "(raised inside fastdist; FASTDIST_TRACEBACKS=full on that worker shows where)"
    assert traceback_text(error.with_traceback(trace)) == inside
    text = error_text(error)
    assert text.splitlines()[-1].endswith(str(error)) and "/fastdist/" not in text
    fold_tracebacks(False)
    assert "/fastdist/" in error_text(error)


@pytest.mark.parametrize("constructor", [fd.nn.Linear.__init__, fd.optim.SGD.__init__])
def test_a_constructor_keeps_its_arguments_for_every_reader(constructor: Any) -> None:
    told = inspect.getfullargspec(constructor)
    assert (told.varargs, told.varkw) == (None, None)
    assert [*told.args, *told.kwonlyargs] == [*inspect.signature(constructor).parameters]


def test_the_environment_turns_folding_off() -> None:
    script = "import fastdist as fd\nfd.cat([1, 2])"
    lines = []
    for value in ("folded", "full"):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"FASTDIST_TRACEBACKS": value},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "ArgumentError: cat()" in done.stderr
        lines.append(done.stderr.count("\n"))
    assert lines[0] < 10 < lines[1]
