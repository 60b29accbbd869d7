"""All collectives as one op; the derivative of a collective is another collective.

Note [Collectives as linear functions]
View the inputs of all members as one vector, and their results as another. Each collective in this
file is a linear function from the first vector to the second. Therefore:

- the same collective, called with the inputs' tangents on all members, returns the results'
  tangents;
- the adjoint collective, called with the results' gradients on all members, returns the inputs'
  gradients; a sum is its own adjoint, reduce_scatter is the adjoint of all_gather, and so on
  (`adjoint`);
- for a batch of vmap, the same collective is called once, with larger arrays.

So one op, `collective`, provides reverse and forward mode, double backward, forward over reverse
and vmap. All members must make the same calls in the same order, in backward passes as well.
Members that recorded the same graph meet this condition, because the backward pass of each member
runs the calls in the reverse order of the forward pass. If one member's result needs no gradient,
and another member's result needs one, their backward passes make different calls, and the group
reports a mismatch or a timeout.
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
    """A linear collective of one group, with all of its arguments except the input.

    `parts_in` says whether the first axis of the input is divided among the members; `parts_out`
    says the same of the result. A batch axis comes after such an axis.
    """

    parts_in: ClassVar[bool] = False
    parts_out: ClassVar[bool] = False

    def __init__(self, group: Any) -> None:
        # The default group is looked up here, so that it does not depend on the thread that runs
        # the backward pass.
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
        """Run the collective with input `x`, and write the result to `out`; record nothing."""
        raise NotImplementedError

    def fill(self, device: Any, x: Any, out: Any) -> None:
        """Call `run` with raw arrays of a device, as tensors."""
        self.run(from_array(x, device), from_array(out, device))


class Reduced(Collective):
    """A reduction of all members' inputs by `op`, such as the sum; all members get the result."""

    def __init__(self, group: Any, op: Any) -> None:
        super().__init__(group)
        self.op = op

    def run(self, x: Tensor, out: Tensor) -> None:
        """Reduce a copy of x."""
        out.copy_(x)
        c10d.all_reduce(out, self.op, self.group)


class Rooted(Collective):
    """A collective to or from one member, whose group rank is `root`."""

    def __init__(self, group: Any, root: int) -> None:
        super().__init__(group)
        self.root = root


class Broadcast(Rooted):
    """The input of member `root`, on all members."""

    def adjoint(self) -> Collective:
        """Return the collective that sums all inputs on member `root`."""
        return ReducedAt(self.group, self.root)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Send `x` if this member is the root, otherwise receive into `out`."""
        if self.rank == self.root:
            out.copy_(x)
        c10d.broadcast(out, group=self.group, group_src=self.root)


class ReducedAt(Rooted):
    """The sum over all members on member `root`, and zeros on the others."""

    def adjoint(self) -> Collective:
        """Return the broadcast from member `root`."""
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
        """Return the collective that sums part i of all inputs, and gives the sum to member i."""
        return ReduceScatter(self.group)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Gather x."""
        c10d.all_gather_into_tensor(out, x.contiguous(), self.group)


class ReduceScatter(Collective):
    """The sum of part i of all members' inputs, on member i; the first axis of an input has one
    part per member.
    """

    parts_in = True

    def adjoint(self) -> Collective:
        """Return the collective that gathers all inputs on all members."""
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
        """Return the scatter from member `root`."""
        return Scatter(self.group, self.root)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Send `x`; the root receives the inputs of all members."""
        parts = list(out.unbind(0)) if self.rank == self.root else None
        c10d.gather(x.contiguous(), parts, group=self.group, group_dst=self.root)
        if parts is None:
            out.zero_()


class Scatter(Rooted):
    """Part i of the input of member `root`, on member i; the first axis has one part per member."""

    parts_in = True

    def adjoint(self) -> Collective:
        """Return the gather on member `root`."""
        return Gather(self.group, self.root)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Receive this member's part; the root sends the parts of `x`."""
        parts = list(x.contiguous().unbind(0)) if self.rank == self.root else None
        c10d.scatter(out, parts, group=self.group, group_src=self.root)


class Exchange(Collective):
    """An all_to_all of rows.

    This member sends `sent[i]` rows to member i, and receives `received[i]` rows from member i.
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
    """A collective that sends its input to one member, and has an empty result.

    A batch of n inputs has a result of shape (0, n).
    """

    parts_out = True

    def __init__(self, group: Any, shape: Shape, to: int, tag: int) -> None:
        super().__init__(group)
        self.shape, self.to, self.tag = shape, to, tag

    def result_shape(self, shape: Shape) -> Shape:
        """Return the shape of an empty tensor: 0, then the batch axes."""
        return (0, *shape[: len(shape) - len(self.shape)])

    def adjoint(self) -> Collective:
        """Return the collective that receives the gradient."""
        return Received(self.group, self.shape, self.to, self.tag)

    def run(self, x: Tensor, out: Tensor) -> None:
        """Send x."""
        c10d.send(x.contiguous(), group=self.group, tag=self.tag, group_dst=self.to)


class Received(Collective):
    """The adjoint of Sent: the result is the tensor that one member sends; the input is empty."""

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
    """Return this member's result of the collective `how`, called with `input`."""


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
    """Return this member's result of the collective `how`, differentiable by the input."""
    found: Tensor = collective(input, how)
    return found
