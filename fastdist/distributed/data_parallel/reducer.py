"""Reducer: averages the gradients of leaves over the group."""

# Note [One iteration]
# A forward calls prepare() if its gradients will be reduced. When the backward pass adds a gradient
# to a leaf, the leaf's hook copies the gradient into a bucket. The reduction of a bucket starts
# when it and all earlier buckets are full, so the order is the same on all members. At the end of
# the pass that fills the last bucket, _finish() waits for the reductions, and writes the means into
# `.grad`. A second pass from outputs of the same forward (a second loss) averages all of `.grad`
# again. This is correct, because the part from the first pass is the same on all members.

from __future__ import annotations

import enum
import functools
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from fastdist.core.errors import GraphError

from ...core.device import CPU
from ...core.dtypes import float16
from ...engine.engine import queue_callback
from ...graph.accumulate_grad import accumulator_of, context_hooks
from ...graph.modes import no_grad
from ...tensor.tensor import Tensor, from_array
from ..process_group.group import ProcessGroup
from ..process_group.options import AllreduceOptions, BroadcastOptions
from ..process_group.reductions import ReduceOp
from ..process_group.work import wait_for
from . import messages
from .backward_pass import (
    call_when_reached,
    captured_of,
    is_accumulating,
    is_distributed,
    leaves_below,
    nodes_of_outputs,
)
from .buckets import Bucket, assign, first_bytes
from .comm_hooks import call_hook, require_hook
from .grad_bucket import GradBucket, value_of
from .times import Times

Method = TypeVar("Method", bound=Callable[..., Any])


class _State(enum.Enum):
    # LOCAL: nothing is reduced, because there was no forward yet, or the last one was in no_sync.
    LOCAL = 0
    PREPARED = 1
    STARTED = 2
    FINISHED = 3


def _noted(method: Method) -> Method:
    """Return a wrapper of a Reducer method that also stores the text of an error it raises."""

    @functools.wraps(method)
    def call(self: Reducer, *args: Any, **named: Any) -> Any:
        try:
            return method(self, *args, **named)
        except Exception as error:
            self.error = str(error)
            raise

    return cast("Method", call)


class Reducer:
    """Reduces the gradients of parameters over a group while backward runs.

    Args:
        named: The parameters, with their names.
        group: The members.
        cap_bytes: The size at which a bucket is full.
        finds_unused: Whether parameters may get no gradient in a backward.
        is_static: Whether the graph is the same in each iteration.
        as_views: Whether `.grad` is a view of the bucket.
        sparse: The indices of the parameters with sparse gradients.

    Threads: hooks run on the threads of the engine. Only one forward or backward runs at a time.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, Tensor]],
        group: ProcessGroup,
        *,
        cap_bytes: int,
        finds_unused: bool,
        is_static: bool,
        as_views: bool,
        sparse: frozenset[int],
    ) -> None:
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.group, self.cap_bytes = group, cap_bytes
        self.finds_unused, self.is_static, self.as_views = finds_unused, is_static, as_views
        self.sparse, self.times = sparse, Times()
        self.iterations = 0
        self.has_rebuilt = False
        # The divisor of the sums; None means the group's size. It is set for uneven inputs.
        self.divisor: int | None = None
        self.hook: tuple[Any, Any] | None = None
        # The text of the last error, for logging_data.
        self.error = ""
        self._lock = threading.RLock()
        self._state = _State.LOCAL
        # Indices of parameters, in the order in which their gradients arrived.
        self._order: list[int] = []
        count = len(self.parameters)
        self._ready: set[int] = set()
        self._unused: list[int] = []
        self._used = np.zeros(count, np.int32)
        self._used_work: Any = None
        # For a static graph: how often each parameter's hook ran in the first iteration, and how
        # often it must still run in this iteration.
        self._times_fired = [0] * count
        self._left = [0] * count
        self._launched = 0
        self._is_end_queued = self._has_begun = self._shares_used = False
        # Whether a pass from outputs of the forward is under way, and whether the iteration ends
        # with this pass.
        self._is_in_pass = self._ends_with_pass = False
        self._has_warned = False
        reverse = range(count - 1, -1, -1)
        self._build(
            assign(self.parameters, reverse, min(first_bytes(), cap_bytes), cap_bytes, sparse)
        )
        self._handles = [
            accumulator_of(parameter).register_post_accumulate_hook(_Arrival(self, index))
            for index, parameter in enumerate(self.parameters)
        ]
        self._leaves = {accumulator_of(one): i for i, one in enumerate(self.parameters)}
        # The context to which a distributed pass adds gradients; None if they are added to `.grad`.
        self._context: Any = None
        for leaf, index in self._leaves.items():
            context_hooks[leaf] = _ArrivalInContext(self, index)

    def _build(self, lists: list[list[int]]) -> None:
        self.buckets = [
            Bucket(indices, self.parameters, sparse=indices[0] in self.sparse) for indices in lists
        ]
        self._bucket_of = {
            index: (bucket, place)
            for bucket in self.buckets
            for place, index in enumerate(bucket.indices)
        }

    def remove_hooks(self) -> None:
        """Remove the hooks from the leaves."""
        for handle in self._handles:
            handle.remove()
        for leaf in self._leaves:
            context_hooks.pop(leaf, None)

    @_noted
    def set_static(self) -> None:
        """Declare that the graph is the same in each iteration.

        Raises  RuntimeError if a backward has run already
        """
        if self.iterations:
            raise RuntimeError(messages.STATIC_LATE)
        self.is_static, self.finds_unused = True, False

    @_noted
    def set_hook(self, state: Any, hook: Any) -> None:
        """Let a communication hook reduce the buckets.

        Raises  TypeError or ValueError if the hook is invalid; RuntimeError if a hook is set
                already, or a backward has run
        """
        require_hook(hook)
        if self.hook is not None:
            raise RuntimeError(messages.HOOK_TWICE)
        if self.iterations:
            raise RuntimeError(messages.HOOK_LATE)
        self.hook = state, hook

    @_noted
    def require_finished(self) -> None:
        """Raise if gradients of the last backward are missing.

        Raises  GraphError naming the parameters whose gradients are missing
        """
        if self._state is not _State.STARTED:
            return
        missing = sorted(set(range(len(self.parameters))) - self._ready)
        text = messages.unfinished(
            self.group.rank(),
            missing,
            self.names,
            finds=self.finds_unused,
            static=self.is_static,
        )
        raise GraphError(text)

    def stay_local(self) -> None:
        """Do not reduce the gradients of the next backward."""
        self._state = _State.LOCAL

    def prepare(self, outputs: Any) -> None:
        """Prepare for a backward from the outputs of a forward."""
        nodes = nodes_of_outputs(outputs)
        self._unused = []
        if self.finds_unused and not self.is_static:
            leaves = leaves_below(nodes)
            self._unused = [i for leaf, i in self._leaves.items() if leaf not in leaves]
            if nodes and not self._unused and not self._has_warned:
                self._has_warned = True
                warnings.warn(messages.NONE_UNUSED, stacklevel=4)
        elif self.is_static and self.iterations:
            self._unused = [i for i, times in enumerate(self._times_fired) if not times]
        self._reset()
        self._state = _State.PREPARED
        call_when_reached(nodes, _Begin(self, self.finds_unused or self.is_static))

    def _reset(self) -> None:
        for bucket in self.buckets:
            bucket.pending, bucket.work = len(bucket.indices), None
        self._launched, self._ready = 0, set()
        self._left = list(self._times_fired)
        self._is_end_queued = self._has_begun = False
        self._is_in_pass = self._ends_with_pass = False
        # Whether parameters that no member used keep their `.grad` unchanged.
        self._shares_used = self.finds_unused or self.is_static

    @_noted
    def begin(self, *, ends_with_pass: bool) -> None:
        """Record that a pass has reached outputs of the forward.

        Raises  GraphError if the pass belongs to autograd.grad, and returns gradients of parameters
        """
        with self._lock:
            if self._state is _State.LOCAL:
                return
            if is_distributed():
                pass
            elif captured := captured_of(self._leaves):
                names = [self.names[self._leaves[leaf]] for leaf in captured]
                raise GraphError(messages.not_reduced(names))
            elif not is_accumulating():
                return
            is_again = self._state is _State.FINISHED
            if is_again:
                self._used[:] = 0
                self._unused = []
                self._reset()
                self._shares_used = True
                self._state = _State.PREPARED
            if not self._has_begun:
                self._has_begun = True
                self._is_in_pass = True
                self._ends_with_pass = ends_with_pass or is_again
                self.times.mark("backward", keep=True)
                queue_callback(self._end_of_pass)

    def _grad_of(self, index: int) -> Any:
        if self._context is not None:
            return self._context.gradient_of(accumulator_of(self.parameters[index]))
        return self.parameters[index].grad

    @_noted
    def arrive(self, index: int, context: Any = None) -> None:
        """Handle a gradient that was added to a parameter's `.grad`, or to `context` if given."""
        with self._lock:
            self._used[index] = 1
            if self._state is _State.FINISHED and self._is_in_pass:
                # A nested pass of the same backward ran after the means had been written.
                raise GraphError(messages.ready_twice(index, self.names[index]))
            if self._state in (_State.LOCAL, _State.FINISHED):
                return
            self._context = context
            grad = self._grad_of(index)
            if grad is None:
                return
            if grad._edge is not None:
                self._state = _State.LOCAL
                raise GraphError(messages.CREATE_GRAPH)
            self._state = _State.STARTED
            if self._is_first_of_static():
                self._times_fired[index] += 1
                self._order.append(index)
                if not self._has_begun:
                    self._has_begun = self._ends_with_pass = True
                    queue_callback(self._end_of_pass)
                return
            if self.is_static:
                if not self._left[index]:
                    raise GraphError(messages.graph_changed(index, self.names[index]))
                self._left[index] -= 1
                if self._left[index]:
                    return
            self._mark_unused()
            if index in self._ready:
                raise GraphError(messages.ready_twice(index, self.names[index]))
            if self.iterations == 0:
                self._order.append(index)
            self._mark(index)

    def _is_first_of_static(self) -> bool:
        return self.is_static and self.iterations == 0

    def _mark_unused(self) -> None:
        unused, self._unused = self._unused, []
        for index in unused:
            self._mark(index)

    def _mark(self, index: int) -> None:
        """Copy a parameter's gradient into its bucket; start the reduction of full buckets."""
        bucket, place = self._bucket_of[index]
        if not bucket.is_sparse:
            view: Any = bucket.views[place]
            grad = self._grad_of(index)
            with no_grad():
                if grad is None:
                    view.zero_()
                elif grad is not view:
                    view.copy_(grad)
                    if self.as_views and self._context is None:
                        self.parameters[index].grad = view
        self._ready.add(index)
        bucket.pending -= 1
        while self._launched < len(self.buckets) and not self.buckets[self._launched].pending:
            self._launch(self.buckets[self._launched])
            self._launched += 1
        if self._launched == len(self.buckets):
            self._share_used()
            if not self._is_end_queued:
                self._is_end_queued = True
                queue_callback(self._finish)

    def _launch(self, bucket: Bucket) -> None:
        self.times.mark("comm", keep=True)
        if bucket.is_sparse:
            self._reduce_sparse(bucket)
            return
        if self.hook is not None:
            state, hook = self.hook
            parameters = [self.parameters[index] for index in bucket.indices]
            is_last = self._launched == len(self.buckets) - 1
            given = GradBucket(bucket, self._launched, is_last, parameters)
            bucket.work = call_hook(hook, state, given)
            return
        op = ReduceOp.SUM
        if self.divisor is None:
            op = ReduceOp.AVG
            if bucket.flat._layout.dtype is float16:
                # Divide before the sum: the sum could overflow float16 even if the mean does not.
                op = ReduceOp.SUM
                with no_grad():
                    flat: Any = bucket.flat
                    flat.div_(self.group.size())
        bucket.work = self.group.allreduce([bucket.flat], AllreduceOptions(reduceOp=op))

    def _reduce_sparse(self, bucket: Bucket) -> None:
        (index,) = bucket.indices
        parameter: Any = self.parameters[index]
        grad = self._grad_of(index)
        if grad is None:
            grad = parameter.detach().new_zeros(parameter.shape).to_sparse(1)
        elif not grad._layout.is_sparse:
            grad = grad.to_sparse(1)
        total = grad.detach().clone()
        self.group.allreduce([total], AllreduceOptions(asyncOp=False))
        mean = total / (self.divisor or self.group.size())
        if self._context is None:
            parameter.grad = mean
            return
        raise NotImplementedError(
            f"{self.names[index]}: a sparse gradient in a context of distributed autograd is not "
            "reduced; use dist_autograd.backward(..., accumulate_to_grad=True)"
        )

    def _share_used(self) -> None:
        if not self._shares_used:
            return
        used = from_array(self._used.copy(), CPU)
        self._used_work = self.group._for_objects().allreduce([used], AllreduceOptions())

    def _end_of_pass(self) -> None:
        """Reduce all buckets at the end of a pass in which some parameters got no gradient."""
        with self._lock:
            self._is_in_pass = False
            if self._state not in (_State.PREPARED, _State.STARTED) or not self._ends_with_pass:
                return
            if self.is_static and self.iterations:
                return
            for index in range(len(self.parameters)):
                if index not in self._ready:
                    self._mark(index)
            self._unused = []

    def _finish(self) -> None:
        """Wait for the reductions, and write the means into `.grad`."""
        with self._lock:
            if self._state not in (_State.PREPARED, _State.STARTED):
                return
            self.times.mark("backward_end")
            self._state = _State.FINISHED
            used: Any = None
            work, self._used_work = self._used_work, None
            for bucket in self.buckets:
                if not bucket.is_sparse:
                    self._wait(bucket)
            if work is not None:
                wait_for(work)
                used = work.result()[0]._array
            for bucket in self.buckets:
                if not bucket.is_sparse:
                    self._place(bucket, used)
            self._used[:] = 0
            self._context = None
            self.iterations += 1
            self.times.mark("comm_end")
            self.times.finish()

    def _wait(self, bucket: Bucket) -> None:
        work, bucket.work = bucket.work, None
        if self.hook is None:
            wait_for(work)
            if self.divisor is not None:
                with no_grad():
                    flat: Any = bucket.flat
                    flat.div_(self.divisor)
            return
        found = value_of(work)
        if found is not bucket.flat:
            with no_grad():
                target: Any = bucket.flat
                target.copy_(found.reshape(target.shape))

    def _place(self, bucket: Bucket, used: Any) -> None:
        with no_grad():
            for index, view in zip(bucket.indices, bucket.views):
                parameter: Any = self.parameters[index]
                if used is not None and not used[index]:
                    continue
                grad = self._grad_of(index)
                if self._context is not None:
                    if grad is None:
                        leaf = accumulator_of(parameter)
                        self._context.accumulate_grad(leaf, view, False)
                    else:
                        grad.copy_(view)
                elif self.as_views:
                    parameter.grad = view
                elif grad is None:
                    parameter.grad = view.clone()
                else:
                    grad.copy_(view)

    def rebuild(self) -> None:
        """Rebuild the buckets once, after the first iteration, in the order of gradients' arrival.

        The order of rank 0 is used on all members, so that they have the same buckets.
        """
        if self.has_rebuilt or not self.iterations or (self.finds_unused and not self.is_static):
            return
        self.has_rebuilt = True
        last = {index: place for place, index in enumerate(self._order)}
        count = len(self.parameters)
        order = sorted(range(count), key=lambda index: (last.get(index, count), -index))
        shared = from_array(np.array(order, np.int64), CPU)
        self.group._for_objects().broadcast([shared], BroadcastOptions(asyncOp=False))
        numbers = [int(index) for index in shared._array]
        first = min(first_bytes(), self.cap_bytes)
        self._build(assign(self.parameters, numbers, first, self.cap_bytes, self.sparse))
        self._order = []

    def shadow(self) -> None:
        """Contribute zeros to the reductions of members that still have inputs."""
        self._used[:] = 0
        for bucket in self.buckets:
            if bucket.is_sparse:
                (index,) = bucket.indices
                self.parameters[index].grad = None
                self._reduce_sparse(bucket)
                continue
            with no_grad():
                flat: Any = bucket.flat
                flat.zero_()
            self._launched = self.buckets.index(bucket)
            self._launch(bucket)
        self._shares_used = self.finds_unused or self.is_static
        self._share_used()
        for bucket in self.buckets:
            if bucket.work is not None:
                self._wait(bucket)
        if self._used_work is not None:
            self._used_work.wait()
            self._used_work = None
        self.iterations += 1
        self._state = _State.LOCAL


class _Arrival:
    """The hook of one leaf, with a weak reference to the reducer."""

    __slots__ = ("_index", "_reducer")

    def __init__(self, reducer: Reducer, index: int) -> None:
        self._reducer, self._index = weakref.ref(reducer), index

    def __call__(self, parameter: Any) -> None:
        reducer = self._reducer()
        if reducer is not None:
            reducer.arrive(self._index)


class _ArrivalInContext(_Arrival):
    """The hook of one leaf in distributed passes."""

    __slots__ = ()

    def __call__(self, context: Any) -> None:
        reducer = self._reducer()
        if reducer is not None:
            reducer.arrive(self._index, context)


class _Begin:
    """The prehook of a forward's outputs in a pass, with a weak reference to the reducer."""

    __slots__ = ("_ends_with_pass", "_reducer")

    def __init__(self, reducer: Reducer, ends_with_pass: bool) -> None:
        self._reducer, self._ends_with_pass = weakref.ref(reducer), ends_with_pass

    def __call__(self) -> None:
        reducer = self._reducer()
        if reducer is not None:
            reducer.begin(ends_with_pass=self._ends_with_pass)
