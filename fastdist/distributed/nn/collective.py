"""All collectives as one op; the derivative of a collective is another collective.

Note [Collectives as linear functions]
View the inputs of all members as one vector, and their results as another. Each collective in this
file is a linear function from the first vector to the second. Therefore:

- the tangents of the results come from the same collective of the tangents, on all members;
- the gradients of the inputs come from the adjoint collective of the gradients, on all members; a
  sum is its own adjoint, reduce_scatter is the adjoint of all_gather, and so on (`adjoint`);
- a batch is the same collective of larger arrays: one call, whatever the size of the batch.

So one op, `collective`, provides reverse and forward mode, double backward, forward over reverse
and vmap. All members must make the same calls in the same order, in backward passes as well.
Members that recorded the same graph meet this condition, because each engine runs the later calls
of forward first. If the result of one member needs no gradient, while that of another member does,
their calls in backward differ, and the group reports a mismatch or a timeout.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from ...dispatch.structured import Plan, structured
from ...tensor.layout import Shape
from ...tensor.tensor import Tensor, from_array
from .. import distributed_c10d as c10d


class Collective:
    """A linear collective of one group, with its arguments but without the input.

    `parts_in` and `parts_out` say whether the first axis of the input, or of the result, is indexed
    by members. A batch axis follows that axis.
    """

    parts_in: ClassVar[bool] = False
    parts_out: ClassVar[bool] = False

    def __init__(self, group: Any) -> None:
        # The default group at construction, whichever thread runs the backward pass.
        self.group: Any = c10d._get_default_group() if group is None else group
        self.size: int = c10d.get_world_size(self.group)
        self.rank: int = c10d.get_rank(self.group)

    def result_shape(self, shape: Shape) -> Shape:
        """Return the shape of the result for an input of this shape."""
        part = shape[1:] if self.parts_in else shape
        return (self.size, *part) if self.parts_out else part

    def adjoint(self) -> Collective:
        """Return the adjoint: the collective that computes the gradients."""
        return self

    def run(self, x: Tensor, out: Tensor) -> None:
        """Call the group with x, and write the result into out; neither has derivatives."""
        raise NotImplementedError

    def fill(self, device: Any, x: Any, out: Any) -> None:
        """Call run with raw arrays of a device."""
        self.run(from_array(x, device), from_array(out, device))


class Reduced(Collective):
    """The sum, the mean or the weighted sum (PREMUL_SUM) over all members, on all of them."""

    def __init__(self, group: Any, op: Any) -> None:
        super().__init__(group)
        self.op = op

    def run(self, x: Tensor, out: Tensor) -> None:
        """Reduce a copy of x."""
        out.copy_(x)
        c10d.all_reduce(out, self.op, self.group)


class Rooted(Collective):
    """A collective to or from one member, given by its group rank."""

    def __init__(self, group: Any, root: int) -> None:
        super().__init__(group)
        self.root = root


class Broadcast(Rooted):
    """The input of member `root`, on all members."""

    def adjoint(self) -> Collective:
        """Return the sum on member root."""
        return ReducedAt(self.group, self.root)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Send x, or receive into out."""
        if self.rank == self.root:
            out.copy_(x)
        c10d.broadcast(out, group=self.group, group_src=self.root)


class ReducedAt(Rooted):
    """The sum over all members on member `root`, and zeros on the others."""

    def adjoint(self) -> Collective:
        """Return the broadcast from root."""
        return Broadcast(self.group, self.root)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Reduce a copy of x."""
        out.copy_(x)
        c10d.reduce(out, group=self.group, group_dst=self.root)
        if self.rank != self.root:
            out.zero_()


class AllGather(Collective):
    """The inputs of all members, stacked along a new first axis, on all members."""

    parts_out = True

    def adjoint(self) -> Collective:
        """Return the sum of each part, on the member of that part."""
        return ReduceScatter(self.group)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Gather x."""
        c10d.all_gather_into_tensor(out, x.contiguous(), self.group)


class ReduceScatter(Collective):
    """The sum over all members of this member's part; the first axis of inputs is indexed by
    members.
    """

    parts_in = True

    def adjoint(self) -> Collective:
        """Return all_gather."""
        return AllGather(self.group)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Reduce and scatter the parts of x."""
        c10d.reduce_scatter_tensor(out, x.contiguous(), group=self.group)


class Gather(Rooted):
    """The inputs of all members, stacked along a new first axis, on `root`; zeros on other
    members.
    """

    parts_out = True

    def adjoint(self) -> Collective:
        """Return the scatter from member root."""
        return Scatter(self.group, self.root)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Send x, or receive the inputs of all members."""
        parts = list(out.unbind(0)) if self.rank == self.root else None
        c10d.gather(x.contiguous(), parts, group=self.group, group_dst=self.root)
        if parts is None:
            out.zero_()


class Scatter(Rooted):
    """This member's part of the input of `root`, whose first axis is indexed by members."""

    parts_in = True

    def adjoint(self) -> Collective:
        """Return the gather on member root."""
        return Gather(self.group, self.root)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Send the parts of x, or receive one."""
        parts = list(x.contiguous().unbind(0)) if self.rank == self.root else None
        c10d.scatter(out, parts, group=self.group, group_src=self.root)


class Exchange(Collective):
    """An all_to_all of rows.

    `sent` and `received` count the rows of the first axis that go to, and come from, each member.
    """

    parts_in = True
    parts_out = True

    def __init__(self, group: Any, sent: Sequence[int], received: Sequence[int]) -> None:
        super().__init__(group)
        self.sent = list(sent)
        self.received = list(received)

    def result_shape(self, shape: Shape) -> Shape:
        """Return the shape of all received rows."""
        return (sum(self.received), *shape[1:])

    def adjoint(self) -> Collective:
        """Return the exchange that sends the rows back."""
        return Exchange(self.group, self.received, self.sent)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Exchange the rows."""
        c10d.all_to_all_single(out, x.contiguous(), self.received, self.sent, self.group)


class Sent(Collective):
    """The input is sent to one member; the result is empty.

    A batch of inputs gives a result of shape (0, batch).
    """

    parts_out = True

    def __init__(self, group: Any, shape: Shape, to: int, tag: int) -> None:
        super().__init__(group)
        self.shape, self.to, self.tag = shape, to, tag

    def result_shape(self, shape: Shape) -> Shape:
        """Return an empty shape, followed by the batch axes."""
        return (0, *shape[: len(shape) - len(self.shape)])

    def adjoint(self) -> Collective:
        """Return the collective that receives the gradient."""
        return Received(self.group, self.shape, self.to, self.tag)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Send x."""
        c10d.send(x.contiguous(), group=self.group, tag=self.tag, group_dst=self.to)


class Received(Collective):
    """The tensor that one member sends, the adjoint of Sent. The input is empty."""

    parts_in = True

    def __init__(self, group: Any, shape: Shape, sender: int, tag: int) -> None:
        super().__init__(group)
        self.shape, self.sender, self.tag = shape, sender, tag

    def result_shape(self, shape: Shape) -> Shape:
        """Return the shape of the received tensor, after the batch axes."""
        return (*shape[1:], *self.shape)

    def adjoint(self) -> Collective:
        """Return the collective that sends the gradient."""
        return Sent(self.group, self.shape, self.sender, self.tag)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Receive into out."""
        c10d.recv(out, group=self.group, tag=self.tag, group_src=self.sender)


@structured("shape.copying.fill_by", linear=True, homes="nowhere", takes_complex=True)
def collective(input: Tensor, how: Collective) -> Tensor:
    """Return this member's result of a collective to which its input is `input`."""


@collective.plan
def _(input: Tensor, how: Collective) -> Plan:
    layout = input._layout
    fill = functools.partial(how.fill, layout.device)
    return Plan(how.result_shape(layout.shape), layout.dtype, (fill,))


@collective.vjp("input")
def _(g: Any, how: Collective) -> Any:
    return collective(g, how.adjoint())


@collective.batches
def _(op: Any, operands: Any, attributes: Any, level: int) -> Any:
    value, (how,) = operands[0].value, attributes
    result = op.general((value.movedim(0, 1) if how.parts_in else value,), attributes)
    return result.movedim(1, 0) if how.parts_out else result


def carried(input: Tensor, how: Collective) -> Tensor:
    """Return this member's result of a collective, as a differentiable function of the input."""
    found: Tensor = collective(input, how)
    return found
