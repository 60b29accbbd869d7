"""`fastdist.trace`: records the ops that a function calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ..core.short_repr import short_repr
from ..dispatch.composite import COMPOSITES
from ..interpreters.torch_function import overridable
from ..interpreters.tracing import Call, Recorder, Value, recording, tensors_of
from ..tensor.pytree import tree_iter, tree_map_only
from ..tensor.tensor import Tensor

_COLUMNS = ("op", "inputs", "results", "site")


class Trace:
    """One recorded run of a function: its op calls in order, its inputs and its outputs.

    `inputs` are the Values of the function's tensor arguments. `constants` maps Values to tensors
    that the recorded calls use, but that are neither arguments of the function nor results of
    calls, such as parameters. `outputs` is the function's result, with Values in place of tensors.
    Calling the trace with tensors of the same shapes and dtypes repeats the recorded calls, and
    evaluates no condition again. Numbers that the function read (`x.item()`, `if x > 0`) keep their
    values. For each such number, a separate call in the trace shows where it was read.

    Note    `backward()` works on raw arrays, so its ops are not recorded; the ops of `func.grad`
            are recorded
    """

    def __init__(
        self,
        calls: list[Call],
        inputs: tuple[Value, ...],
        constants: dict[Value, Tensor],
        outputs: Any,
    ) -> None:
        self.calls = calls
        self.inputs = inputs
        self.constants = constants
        self.outputs = outputs

    def __iter__(self) -> Iterator[Call]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Repeat the recorded calls on other tensors of the same shapes and dtypes.

        Raises  TypeError for another number of tensors, ValueError for other shapes or dtypes
        """
        given = tensors_of((args, kwargs))
        if len(given) != len(self.inputs):
            raise TypeError(f"the trace has {len(self.inputs)} inputs, got {len(given)} tensors")
        values: dict[Value, Tensor] = dict(self.constants)
        for value, tensor in zip(self.inputs, given, strict=True):
            if tensor._layout.shape != value.shape or tensor._layout.dtype is not value.dtype:
                raise ValueError(
                    f"input {short_repr(value)} was traced with {_told(value)}, got "
                    f"{tensor._layout.dtype.name}{list(tensor._layout.shape)}; trace it again"
                )
            values[value] = tensor
        for call in self.calls:
            args, kwargs = _filled((call.args, call.kwargs), values)
            result = call.function(*args, **kwargs)
            values.update(zip(call.results, tensors_of(result), strict=True))
        return _filled(self.outputs, values)

    def __str__(self) -> str:
        rows = [_COLUMNS, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        padded = [[c.ljust(n) for c, n in zip(row, widths, strict=True)] for row in rows]
        return "\n".join("  ".join(row).rstrip() for row in padded)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the calls as an HTML table, for a notebook."""
        from ..instrumentation.notebook import table  # imported when used: few processes need it

        return table(_COLUMNS, self._rows())

    def _rows(self) -> list[tuple[str, str, str, str]]:
        known = {value: f"{value!r}: {_told(value)}" for value in self.inputs}
        rows = [("input", "", told, "") for told in known.values()]
        rows += [("constant", "", f"{v!r}: {_told(v)}", "") for v in self.constants]
        for call in self.calls:
            read = ", ".join(f"{v!r}: {_told(v)}" for v in _values((call.args, call.kwargs)))
            made = ", ".join(f"{v!r}: {_told(v)}" for v in call.results) or call.note
            rows.append((call.op, read, made, _short(call.site)))
        rows.append(("output", ", ".join(map(repr, _values(self.outputs))), "", ""))
        return rows


@overridable
def trace(input: Any) -> Any:
    """Return the sum of a matrix's diagonal. If `input` is a function, return a function that calls
    `input` and returns a Trace of the call: `print(trace(fn)(x))` shows the ops of `fn(x)`, with
    shapes, dtypes and source lines.
    """
    if isinstance(input, Tensor) or not callable(input):
        return COMPOSITES["trace"].call(input)
    function = input

    def tracing(*args: Any, **kwargs: Any) -> Trace:
        recorder = Recorder()
        inputs: list[Value] = []

        def enter(one: Tensor) -> Tensor:
            if recorder.knows(one):
                one = one.view_as(one)  # a repeated argument: the trace needs two tensors
            inputs.append(recorder.new_value(one))
            return one

        args, kwargs = tree_map_only(Tensor, enter, (args, kwargs))
        with recording(recorder):
            outputs = recorder.replace_tensors(function(*args, **kwargs))
        return Trace(recorder.calls, tuple(inputs), recorder.constants, outputs)

    return tracing


def _values(tree: Any) -> list[Value]:
    return [one for one in tree_iter(tree, _is_value) if _is_value(one)]


def _filled(tree: Any, values: dict[Value, Tensor]) -> Any:
    """Return a tree with each Value replaced by its tensor."""
    return tree_map_only(_is_value, values.__getitem__, tree, is_leaf=_is_value)


def _is_value(tree: Any) -> bool:
    return isinstance(tree, Value)


def _told(value: Value) -> str:
    return f"{value.dtype.name}{list(value.shape)}"


def _short(site: str) -> str:
    path, _, line = site.rpartition(":")
    return f"{os.path.basename(path)}:{line}"
