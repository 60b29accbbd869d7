"""A user's Function under `vmap`: its methods get batches; its Node gets the batches' values."""

# Note [Functions of a batch]
# Graphs and tangents belong to the values inside batches. So a call with batches becomes a call of
# another Function (`OfBatch`) with the values. Its forward wraps the values in batches, runs the
# user's forward with these, and returns the values of the results. Its backward and jvp do the same
# with the user's backward and jvp. They use the vmap levels that were open at the call, even if
# those levels have been closed since. `OfBatch` has a batching rule too: if the values are batches
# of an outer level, the call of `OfBatch` is replaced in the same way.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..core.errors import TransformError
from ..interpreters.batched_tensor import batched, level_of, value_at
from ..interpreters.batching import Levels, levels_now, using_levels
from ..tensor.tensor import Tensor


class VmapInfo(NamedTuple):
    """The information about the batch that the `vmap` method of a Function gets."""

    batch_size: int
    randomness: str


class CallOnBatch:
    """One call of a user's Function whose arguments include batches of one level."""

    def __init__(
        self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], level: int
    ) -> None:
        _, sizes, kinds = levels_now()
        self.function, self.kwargs, self.level = function, kwargs, level
        self.open: Final[Levels] = (level, sizes[:level], kinds[:level])
        self.outer: Final[Levels] = (level - 1, sizes[: level - 1], kinds[: level - 1])
        self.info: Final = VmapInfo(sizes[level - 1], kinds[level - 1])
        self.is_batch = [self.plain(one) is not one for one in args]
        self.shapes = [one._layout.shape if isinstance(one, Tensor) else None for one in args]
        self.has_one_output = False
        # `users` has the attributes that the user set on ctx. `saved` and `saved_for_jvp` say for
        # each saved value whether it is a batch.
        self.users: dict[str, Any] = {}
        self.saved: list[bool] = []
        self.saved_for_jvp: list[bool] = []

    def plain(self, one: Any) -> Any:
        """Return the value inside a batch of the call's level, and anything else unchanged."""
        return value_at(one, self.level)

    def held(self, one: Any) -> Any:
        """Return the value inside a result. A tensor that is not a batch is expanded to the size of
        the batch.
        """
        return (
            value_at(one, self.level, size=self.info.batch_size) if isinstance(one, Tensor) else one
        )

    def given(self, values: Sequence[Any], is_batch: Sequence[bool]) -> list[Any]:
        """Return `values`, with each value whose `is_batch` is true wrapped in a batch again."""
        return [
            batched(one, self.level) if batch and one is not None else one
            for one, batch in zip(values, is_batch, strict=True)
        ]

    def each(self, values: Sequence[Any]) -> list[Any]:
        """Return the values of results, each tensor wrapped in a batch."""
        return [batched(one, self.level) if isinstance(one, Tensor) else one for one in values]

    def outputs(self, output: Any) -> tuple[Any, ...]:
        """Return the outputs of forward as a tuple, and store whether there was a single output."""
        self.has_one_output = not isinstance(output, tuple)
        return (output,) if self.has_one_output else output

    def gradient(self, g: Any, i: int) -> Any:
        """Return the gradient of the value inside argument i, given the argument's gradient `g`."""
        shape = self.shapes[i]
        if not isinstance(g, Tensor) or shape is None:
            return g
        if g._layout.shape != shape:
            g = g.sum_to_size(shape)
        if self.is_batch[i]:
            return self.held(g)
        value = self.plain(g)
        return value * self.info.batch_size if value is g else value.sum(0)


class CtxOfBatch:
    """The ctx of a user's Function that gets batches. The ctx saves the values inside the batches.

    A user may set any attribute, as on a FunctionCtx.
    """

    __slots__ = ("__call", "__ctx", "__dict__", "__saved")

    def __init__(self, ctx: Any, call: CallOnBatch, *, in_jvp: bool = False) -> None:
        self.__ctx, self.__call = ctx, call
        self.__saved = call.saved_for_jvp or call.saved if in_jvp else call.saved
        self.__dict__ = call.users

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward, which reads `saved_tensors`."""
        self.__call.saved = self.__keep(self.__ctx.save_for_backward, tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for jvp, which reads `saved_tensors`."""
        self.__call.saved_for_jvp = self.__keep(self.__ctx.save_for_forward, tensors)

    def __keep(self, save: Any, tensors: Sequence[Any]) -> list[bool]:
        values = [self.__call.plain(one) for one in tensors]
        save(*values)
        return [value is not one for value, one in zip(values, tensors, strict=True)]

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare that forward changed these inputs in place."""
        self.__ctx.mark_dirty(*[self.__call.plain(one) for one in tensors])

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare that these outputs have no gradient."""
        self.__ctx.mark_non_differentiable(*[self.__call.plain(one) for one in tensors])

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether an undefined gradient or tangent is passed as zeros or None."""
        self.__ctx.set_materialize_grads(value)

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Return for each argument whether it needs a gradient."""
        return tuple(self.__ctx.needs_input_grad[1:])

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The saved tensors, in order.

        Raises  the errors of FunctionCtx.saved_tensors
        """
        return tuple(self.__call.given(self.__ctx.saved_tensors, self.__saved))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__ctx, name)


class OfBatch:
    """The Function that replaces a user's Function for a batch: Note [Functions of a batch]."""

    generate_vmap_rule = True

    @staticmethod
    def forward(call: CallOnBatch, *values: Any) -> Any:
        """Run the user's forward or vmap method, and return the values inside its results."""
        if has_rule_of_its_own(call.function):
            return _by_the_users_rule(call, values)
        with using_levels(call.open):
            output = call.function.forward(*call.given(values, call.is_batch), **call.kwargs)
            return tuple([call.held(one) for one in call.outputs(output)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Run the user's setup_context with batches."""
        call, *values = inputs
        ctx.call = call
        outputs = call.each(output)
        with using_levels(call.open):
            call.function.setup_context(
                CtxOfBatch(ctx, call),
                tuple(call.given(values, call.is_batch)),
                outputs[0] if call.has_one_output else tuple(outputs),
            )

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradients of the values inside the arguments."""
        call = ctx.call
        with using_levels(call.open):
            found = call.function.backward(CtxOfBatch(ctx, call), *call.each(grads))
            found = found if isinstance(found, tuple) else (found,)
            if len(found) != len(call.is_batch):
                return (None, *found)  # the wrong number of gradients: the Node raises the error
            return (None, *[call.gradient(g, i) for i, g in enumerate(found)])

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        """Return the tangents of the values inside the results."""
        call = ctx.call
        with using_levels(call.open):
            inner = CtxOfBatch(ctx, call, in_jvp=True)
            found = call.function.jvp(inner, *call.given(tangents, call.is_batch))
            found = found if isinstance(found, tuple) else (found,)
            return tuple([call.held(one) for one in found])


def apply_to_batch(
    function: Any, of_batch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Use the batching rule of a Function to call it with arguments that include a batch, and
    return the results.

    Raises  TransformError (a RuntimeError) for a Function without a batching rule or with two rules
    """
    _require_rule(function)
    if level_of(kwargs.values()):
        raise NotImplementedError(
            f"vmap: {function.__name__}.apply got a batch as a keyword argument; pass tensors by "
            "position"
        )
    call = CallOnBatch(function, args, kwargs, level_of(args))
    values = [call.plain(one) for one in args]
    found = of_batch.apply(call, *values)
    # If a result is the value of an argument, because the user's forward changed the argument in
    # place, return the argument.
    arguments = {id(value): one for value, one in zip(values, args, strict=True)}
    each = [arguments.get(id(one), made) for one, made in zip(found, call.each(found), strict=True)]
    return each[0] if call.has_one_output else tuple(each)


def is_missing(method: Any) -> Any:
    """Mark a method of Function as missing: a subclass may define it."""
    method.is_missing = True
    return method


def has_rule_of_its_own(function: Any) -> bool:
    """Return whether the user defined `vmap` for a Function."""
    return not getattr(function.vmap, "is_missing", False)


def _require_rule(function: Any) -> None:
    name, own = function.__name__, has_rule_of_its_own(function)
    if own and function.generate_vmap_rule:
        raise TransformError(
            f"You tried to vmap over {name}, but it has both generate_vmap_rule=True and an "
            "overriden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            "overriden vmap staticmethod to avoid ambiguity."
        )
    if not own and not function.generate_vmap_rule:
        raise TransformError(
            f"You tried to vmap over {name}, but it does not have vmap support. Please override "
            "and implement the vmap staticmethod or set generate_vmap_rule=True."
        )
    if getattr(function.setup_context, "is_missing", False):
        raise TransformError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
            "jacrev, ...), it must override the setup_context staticmethod: "
            f"{name}.forward takes ctx"
        )


def _by_the_users_rule(call: CallOnBatch, values: Sequence[Any]) -> tuple[Any, ...]:
    in_dims = tuple([0 if batch else None for batch in call.is_batch])
    with using_levels(call.outer):
        found = call.function.vmap(call.info, in_dims, *values, **call.kwargs)
        if not isinstance(found, tuple) or len(found) != 2:
            told = f"a tuple of {len(found)}" if isinstance(found, tuple) else f"{type(found)}"
            raise TransformError(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with "
                f"pytree structure compatible with the output. Got {told} instead"
            )
        output, out_dims = found
        outputs = call.outputs(output)
        dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
        if len(dims) != len(outputs):
            raise TransformError(
                f"{call.function.__name__}.vmap returned {len(outputs)} outputs and {len(dims)} "
                "out_dims; expected one for each"
            )
        size = call.info.batch_size
        return tuple([_along_first(one, d, size) for one, d in zip(outputs, dims, strict=True)])


def _along_first(one: Any, dim: int | None, size: int) -> Any:
    if not isinstance(one, Tensor):
        return one
    return one.expand(size, *one._layout.shape) if dim is None else one.movedim(dim, 0)
