"""Recorders, which record every call of a thread: ops report their calls to them.

While a recorder is open, `modes.tracers` is not zero and every op takes the general path, which
reports calls to this module. While none is open, nothing is checked. See Note [What is recorded].
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from ..core.caller_warning import is_ours
from ..core.interpreter import NOT_TAKEN, Interpreter, list_open, resumed
from ..graph.lazy_conj_neg import LazyConjNeg
from ..graph.modes import count_tracers
from ..tensor.constants import number_of
from ..tensor.pytree import tree_iter, tree_map_only
from ..tensor.tensor import Tensor

# Note [What is recorded]
# A recorder records the calls of ops that a thread makes itself, in order, without the calls that
# an op makes inside. A composite is recorded as the calls of its ops. It is recorded as one call if
# no op made its result (`cat`, `randn`), or if one of its ops has tensors in an attribute. A tensor
# that is read, but was not made by a recorded call, is an input or a constant. A tensor that shares
# the array of a known tensor (`x.detach()`, `x.data`) is recorded as the `detach` of the known
# tensor. A helper op is shown under the name of the function that the user called, or under
# PyTorch's name for the op (`shown_as`). Where the user's code reads values (`x.item()`, `if x >
# 0`), the trace has a call that notes the read: the trace keeps these values as constants. An
# answer of another worker is noted in the same way, because calls on that worker are not recorded
# here.


class Value(NamedTuple):
    """A tensor of a trace: an input, a constant, or a result of a call."""

    number: int
    shape: tuple[int, ...]
    dtype: Any
    device: Any

    def __repr__(self) -> str:
        return f"%{self.number}"


class Call(NamedTuple):
    """One call of a trace: `function(*args, **kwargs)`, in which Values stand for tensors, computes
    `results` again. `site` is the user's line as FILE:LINE; `note` has further information for
    readers.
    """

    op: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[Value, ...]
    site: str
    note: str = ""


class Recorder:
    """The calls of one thread since the recorder was opened, and the tensors known to it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.constants: dict[Value, Tensor] = {}
        self.count = 0
        self.busy = False
        # The name of the outermost composite that is running.
        self.composite = ""
        # Known tensors by their ids. The references are weak, so the recorder does not keep views
        # alive.
        self._known: dict[int, tuple[Any, Any, Value]] = {}
        self._by_array: dict[Any, tuple[Any, Value]] = {}

    def new_value(self, tensor: Tensor) -> Value:
        """Return a new Value, and register it for tensor."""
        layout, known, this = tensor._layout, self._known, id(tensor)
        value = Value(self.count, layout.shape, layout.dtype, layout.device)
        self.count += 1
        known[this] = (weakref.ref(tensor, lambda _: known.pop(this, None)), layout, value)
        key, array = _identity_of(tensor)
        self._by_array.setdefault(key, (array, value))
        return value

    def knows(self, tensor: Tensor) -> bool:
        """Return whether a tensor has a Value, as an input, a constant or a result of a recorded
        call.
        """
        found = self._known.get(id(tensor))
        return found is not None and found[1] is tensor._layout

    def value_of(self, tensor: Tensor) -> Value:
        """Return the Value of a tensor that is read. An unknown tensor becomes a constant, or the
        `detach` of the known tensor whose array it shares.
        """
        if self.knows(tensor):
            return self._known[id(tensor)][2]
        source = self._by_array.get(_identity_of(tensor)[0])
        value = self.new_value(tensor)
        if source is None:
            self.constants[value] = tensor
        else:
            self.calls.append(Call("detach", Tensor.detach, (source[1],), {}, (value,), site()))
        return value

    def replace_tensors(self, given: Any) -> Any:
        """Return arguments with tensors replaced by their Values."""
        return tree_map_only(Tensor, self._replace_tensor, given)

    def _replace_tensor(self, given: Tensor) -> Any:
        number = number_of(given)
        return self.value_of(given) if number is None else number

    def forget(self, constants: Sequence[Value], but: Sequence[Tensor]) -> None:
        """Forget these constants; the tensors in `but` stay known."""
        kept = {id(one) for one in but}
        for value in constants:
            tensor = self.constants.pop(value)
            if id(tensor) not in kept:
                self._known.pop(id(tensor), None)
                self._by_array.pop(_identity_of(tensor)[0], None)

    def add(
        self,
        op: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        results: Sequence[Tensor],
    ) -> None:
        """Record a call that has just been made."""
        given, named = self.replace_tensors(args), self.replace_tensors(kwargs)
        made = tuple(
            [self._known[id(r)][2] if self.knows(r) else self.new_value(r) for r in results]
        )
        self.calls.append(Call(op, function, given, named, made, site()))


def _identity_of(tensor: Tensor) -> tuple[Any, Any]:
    """Return the key by which tensors over the same array are recognized, and the array."""
    if isinstance(tensor, LazyConjNeg):
        return (id(tensor.value._array), tensor.change.name), tensor.value._array
    return id(tensor._array), tensor._array


class _ThreadState(threading.local):
    recorder: Recorder | None = None


class _Recorders(Interpreter):
    """An interpreter that reports the calls of a thread to its recorder."""

    order = 4

    def call(self, op: Any, args: Any, target: Any, rest: Any) -> Any:
        """Record a call as one call, or let the ops of a composite report their own calls."""
        recorder = active_recorder()
        if recorder is None:
            return NOT_TAKEN
        if op.kind == "composite":
            return NOT_TAKEN if op.is_ignored else traced_composite(recorder, op, rest, *args)
        if not op.is_one_call(args[1]):
            return NOT_TAKEN
        shown, run = shown_as(recorder, op, *args), partial(resumed, op, rest, op.general)
        return traced(recorder, shown, op.general, (*args, target), run)


thread: Final = _ThreadState()
recorders: Final = _Recorders()


# Functions that are called with True after a recorder opens, and with False before it closes.
watchers: Final[list[Callable[[bool], None]]] = []


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Let a recorder record this thread's calls inside this block."""
    list_open(recorders, True)
    before, thread.recorder = thread.recorder, recorder
    count_tracers(1)
    _notify(True)
    try:
        yield
    finally:
        _notify(False)
        count_tracers(-1)
        thread.recorder = before
        list_open(recorders, before is not None)


def _notify(is_open: bool) -> None:
    for watcher in watchers:
        watcher(is_open)


def active_recorder() -> Recorder | None:
    """Return this thread's recorder. Return None if there is none, or if a function is running that
    the recorder records as a single call, without the calls inside the function.

    Note    called only while modes.tracers is not zero
    """
    recorder = thread.recorder
    if recorder is None or recorder.busy:
        return None
    return recorder


def shown_as(recorder: Recorder, op: Any, operands: Any, attributes: Any) -> str:
    """Return the name under which users know an op."""
    if op.homes:
        return op.name  # type: ignore[no-any-return]
    return recorder.composite or op.event(operands, attributes).removeprefix("aten::")


def note_read(name: str, tensor: Any, found: Any) -> None:
    """Record, if a recorder is open in this thread, that the user's code read values of a
    tensor.
    """
    recorder = active_recorder()
    if recorder is None or not isinstance(tensor, Tensor) or not recorder.knows(tensor):
        return
    numbers = repr(found) if isinstance(found, int | float | complex) else "numbers"
    value, note = recorder.value_of(tensor), f"{numbers}, baked in"
    recorder.calls.append(Call(name, _not_again, (value,), {}, (), site(), note))


def note_answer(name: str, tensors: Sequence[Tensor], whose: str) -> None:
    """Record, if a recorder is open in this thread, that the user's code called another worker.

    Note    called only while modes.tracers is not zero
    """
    recorder = active_recorder()
    if recorder is not None:
        note = f"answer of {whose}, baked in"
        given = recorder.replace_tensors(tuple(tensors))
        recorder.calls.append(Call(name, _not_again, given, {}, (), site(), note))


def _not_again(*tensors: Tensor) -> None:
    """Stand for a read of values in a trace. It cannot run again: the values' use is unknown."""


def traced(
    recorder: Recorder,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    run: Callable[..., Any] | None = None,
) -> Any:
    """Return function(*args), and record this call without the calls inside it. If `run` is given,
    run(*args) computes the result, but the recorded function is `function`.
    """
    recorder.busy = True
    try:
        recorder.replace_tensors(args)  # now, because the call may overwrite them
        result = (run or function)(*args)
    finally:
        recorder.busy = False
    recorder.add(name, function, args, {}, tensors_of(result))
    return result


def traced_composite(
    recorder: Recorder, op: Any, rest: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a composite while recorder records its ops. If no op made the result, replace the calls
    of the ops by one call of the composite. `rest` are the interpreters that come after recorders.
    """
    name, function = op.name, op.call
    recorder.replace_tensors((args, kwargs))
    before, constants = len(recorder.calls), len(recorder.constants)
    around, recorder.composite = recorder.composite, recorder.composite or name
    try:
        result = resumed(op, rest, function, *args, **kwargs)
    finally:
        recorder.composite = around
    made = tensors_of(result)
    wrote = name.endswith("_") and len(recorder.calls) == before
    # Constants that appeared inside the composite may be computed from values of its arguments.
    secret = [*recorder.constants][constants:]
    if wrote or secret or not all(recorder.knows(one) for one in made):
        del recorder.calls[before:]
        recorder.forget(secret, made)
        recorder.add(name, function, args, kwargs, made)
    return result


def tensors_of(tree: Any) -> list[Tensor]:
    """Return the tensors in a tree, in order."""
    return [one for one in tree_iter(tree) if isinstance(one, Tensor)]


def site() -> str:
    """Return the user's line that is running, as FILE:LINE."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_ours(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
