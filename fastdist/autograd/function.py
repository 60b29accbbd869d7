"""`Function`: user-defined ops, with `forward`, and `backward` or `jvp` as their derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ..core.errors import GraphError
from ..core.missing import explain_missing
from ..dispatch.tangents import is_recorded
from ..graph.anomaly import note_forward
from ..graph.forward_streams import device_of, note_stream
from ..graph.inplace_history import require_may_change, set_history
from ..graph.lazy_conj_neg import LazyConjNeg
from ..graph.modes import modes, no_grad, set_grad_mode, tls
from ..graph.node import Edge, next_sequence_number
from ..graph.tensor_tangents import below, levels_of, only_below, set_tangent, tangent_of
from ..interpreters.batched_tensor import level_of
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, wrap
from .function_batch import OfBatch, VmapInfo, apply_to_batch, is_missing
from .function_ctx import FunctionCtx
from .function_node import FunctionNode


class Function:
    """Base class of an op with its own forward and backward; call it by `apply`.

    `forward(ctx, *inputs)` runs without recording. If the class has `setup_context(ctx, inputs,
    output)`, forward is `forward(*inputs)` instead. `backward(ctx, *grad_outputs)` returns one
    gradient (or None) for each input. `jvp(ctx, *tangents)` returns one tangent for each output.
    `ctx.save_for_backward` keeps tensors; attributes of ctx keep other values.

    Under `vmap`, a Function with a setup_context and `generate_vmap_rule = True` gets batches, also
    in backward and jvp. If the class has a method `vmap(info, in_dims, *inputs)`, this method runs
    instead of forward, and returns the outputs and the batch axis of each output. A Function with
    neither raises an error.

    Example:
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return 2 * x * grad
        >>> x = torch.tensor([3.0], requires_grad=True)
        >>> Square.apply(x).backward()
        >>> x.grad
        tensor([6.])
    """

    _node_class: ClassVar[type[FunctionNode]]
    _of_batch: ClassVar[type[Function] | None] = None
    generate_vmap_rule: ClassVar[bool] = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; overridden by a subclass."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    @is_missing
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save the values that backward needs, if forward does not take a ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the inputs' gradients; overridden by a subclass."""
        raise NotImplementedError(
            "You must implement the backward method for your custom autograd.Function to use it "
            "with "
            "backward mode AD."
        )

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the outputs' tangents; overridden by a subclass."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    @is_missing
    def vmap(info: VmapInfo, in_dims: tuple[int | None, ...], *args: Any) -> Any:
        """Return the outputs for a batch, and the batch axis of each output. `in_dims` has the
        batch axis of each argument, or None.
        """
        raise NotImplementedError("vmap is not implemented.")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._of_batch = None
        cls._node_class = type(
            f"{cls.__name__}Backward",
            (FunctionNode,),
            {"function": cls, "__module__": cls.__module__},
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward on args, and record the call so that backward computes the gradients."""
        if modes.tracers and level_of(args):
            if cls._of_batch is None:
                cls._of_batch = type(cls.__name__, (OfBatch, Function), {})
            return apply_to_batch(cls, cls._of_batch, args, kwargs)
        node = cls._node_class(args)
        ctx = FunctionCtx(node)
        with no_grad(), only_below(None):
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args, **kwargs)
            else:
                output = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, output)
        outputs = output if isinstance(output, tuple) else (output,)
        finished = _record(node, args, outputs)
        if modes.special and (levels := levels_of(args)):
            _carry_tangents(cls, node, args, finished, levels)
        node.end_forward()
        return tuple(finished) if isinstance(output, tuple) else finished[0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd "
            f"function with static forward method: call {type(self).__name__}.apply"
        )


def _record(node: FunctionNode, args: Sequence[Any], outputs: tuple[Any, ...]) -> list[Any]:
    dirty = {id(tensor) for tensor in node.dirty}
    _require_dirty_returned(node, outputs)
    records = tls.grad and any(node.wanted)
    inputs = {id(a) for a in args if isinstance(a, Tensor)}
    if records:
        for tensor in node.dirty:
            if isinstance(tensor, LazyConjNeg):
                raise GraphError(
                    f"{node.name()} changes a {tensor.adjective} view in place, which a "
                    "differentiated Function must not do: pass it the result of "
                    f"resolve_{tensor.change.name}()"
                )
            require_may_change(tensor)
    for tensor in node.dirty:
        storage_of(tensor).bump()
    results = [_own(o, id(o) in inputs and id(o) not in dirty) for o in outputs]
    if not records:
        return results
    node.seq = next_sequence_number()
    if modes.tracers:
        note_forward(node)
    node.num_outputs = len(results)
    node.output_layout = tuple([o._layout if isinstance(o, Tensor) else None for o in results])
    device = device_of(node)
    if device is not None:
        note_stream(node, device)
    for i, result in enumerate(results):
        if not isinstance(result, Tensor) or id(outputs[i]) in node.non_differentiable:
            continue
        if result._layout.dtype.may_have_gradient:
            _give_edge(node, result, i, id(outputs[i]) in dirty)
    node.keep(results, outputs)
    return results


def _own(output: Any, is_input: bool) -> Any:
    """Return an output as a tensor that may get an edge. For an input that forward returned
    unchanged, return an alias, because the input itself must not get the edge.
    """
    if not isinstance(output, Tensor) or not is_input:
        return output
    if isinstance(output, LazyConjNeg):
        return output.detach()
    alias = wrap(output._array, output._layout)
    alias._storage = storage_of(output)
    return alias


def _give_edge(node: FunctionNode, result: Tensor, i: int, changed: bool) -> None:
    edge: Any = Edge(node, i)
    if node.num_outputs == 1:
        node.output_layout, edge = result._layout, node
    if not changed:
        result._edge = edge
        return
    if result._extra is not None and result._extra.base is not None:
        if node.num_outputs > 1:
            raise GraphError(
                "If your Function modifies views inplace, it must return a single output: "
                f"{node.name()} has {node.num_outputs}"
            )
        if not node.is_first_input(result):
            raise GraphError(
                f"{node.name()} changes a view in place, which must be its first input"
            )
    set_history(result, edge)


def _require_dirty_returned(node: FunctionNode, outputs: tuple[Any, ...]) -> None:
    returned = {id(output) for output in outputs}
    if any(id(tensor) not in returned for tensor in node.dirty):
        raise GraphError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are "
            f"modified inplace must all be outputs of the Function: {node.name()}"
        )


def _carry_tangents(
    cls: type[Function], node: FunctionNode, args: Sequence[Any], outputs: list[Any], levels: Any
) -> None:
    given = [
        (level, [node.tangent_seen(a, tangent_of(a, level)) for a in args]) for level in levels
    ]
    for level, tangents in given:
        with only_below(level), node.giving_tangents():
            found = cls.jvp(FunctionCtx(node), *tangents)
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(outputs):
            raise GraphError(
                f"{cls.__name__}.jvp returned {len(found)} tangents; expected one for each of "
                f"{len(outputs)} outputs"
            )
        for output, tangent in zip(outputs, found, strict=True):
            if tangent is not None and isinstance(output, Tensor):
                set_tangent(output, below(tangent, level), level)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward whose own derivative would be wrong: differentiating it then fails."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        recording = is_recorded(grads)
        set_grad_mode_before = tls.grad
        try:
            set_grad_mode(False)
            found = backward(ctx, *grads)
        finally:
            if set_grad_mode_before:
                tls.grad = True  # See Note [Ctrl-C and grad mode]
            set_grad_mode(set_grad_mode_before)
        if not recording:
            return found
        several = found if isinstance(found, tuple) else (found,)
        refused = tuple([None if g is None else _Refusal.apply(g, *grads) for g in several])
        return refused if isinstance(found, tuple) else refused[0]

    return wrapper


class _Refusal(Function):
    """Returns a gradient unchanged; differentiating the result raises an error."""

    generate_vmap_rule = True

    @staticmethod
    def forward(g: Tensor, *grads: Any) -> Tensor:
        return g

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise GraphError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


__all__ = ["Function", "FunctionCtx", "FunctionNode", "once_differentiable"]


explain_missing(__name__)
