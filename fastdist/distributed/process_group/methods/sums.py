"""Methods of ProcessGroup that reduce tensors over all members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.folded_frames import folds
from ....tensor.tensor import Tensor
from ..arrays import (
    agreed_text,
    require_one_dtype,
    require_readable,
    require_target,
    require_tensors,
)
from ..carriers import GroupingTransport
from ..group_base import GroupBase
from ..lists import all_reduce_together, require_coalescible
from ..memory import Memory, memory_of
from ..options import AllreduceOptions, ReduceScatterOptions, options_for
from ..reductions import Reduction, reduction_of
from ..together import start_together
from ..transport import Call, Transport
from ..work import Work
from .arguments import as_list, as_lists, require_length, require_size, separate


class Sums(GroupBase):
    """Methods that reduce tensors, and leave the result, or a part of it, on all members."""

    @folds
    def allreduce(
        self, tensors: Any, opts: Any = None, timeout: Any = None, *, op: Any = None
    ) -> Work:
        """Replace a tensor on all members by its reduction over the members.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            tensors: A tensor, or a list of tensors; read and written. Several tensors of a member
                are also reduced with each other, and all receive the result.
            opts: AllreduceOptions, or a ReduceOp; None: its defaults.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.
            op: The reduction, such as ReduceOp.SUM; None: that of opts.

        Returns:
            A Work; wait() returns when the tensors may be used (immediately if not opts.asyncOp).

        Example:
            >>> x = torch.ones(2)
            >>> dist.group.WORLD.allreduce([x]).wait()
            True
        """
        opts = options_for(AllreduceOptions, opts, timeout, reduceOp=op)
        tensors = as_list(tensors)
        if len(tensors) != 1:
            return all_reduce_together(self, tensors, opts)
        (tensor,) = tensors
        if isinstance(tensor, Tensor) and tensor._layout.is_sparse:
            from ..sparse import all_reduce_sparse

            return all_reduce_sparse(self, tensor, opts)
        require_target("all_reduce", "tensor", tensor)
        how = reduction_of(opts.reduceOp, tensor._layout.dtype.numpy, "all_reduce")

        def act(transport: Transport, call: Call) -> None:
            target = memory_of(transport).target(tensor, reads=True)
            _reduce_all(transport, call, target._array, how)
            target.done()

        return self._run("all_reduce", agreed_text(tensor, how.name), act, [tensor], opts)

    @folds
    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        """Replace tensors of one dtype by their reductions, in one message.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            tensors: The tensors, read and written; a list with the same shapes on all members.
            opts: AllreduceOptions; None: its defaults.

        Returns:
            A Work; wait() returns when the tensors may be used (immediately if not opts.asyncOp).
        """
        opts = AllreduceOptions() if opts is None else opts
        require_coalescible("all_reduce_coalesced", tensors)
        dtype = tensors[0]._layout.dtype
        how = reduction_of(opts.reduceOp, dtype.numpy, "all_reduce")
        shapes = [tensor._layout.shape for tensor in tensors]

        def act(transport: Transport, call: Call) -> None:
            if isinstance(transport, GroupingTransport):
                _reduce_each(transport, call, tensors, how)
                return
            memory = memory_of(transport)
            joined = memory.join([memory.flat(tensor) for tensor in tensors])
            _reduce_all(transport, call, joined, how)
            copy_parts(joined, tensors, memory)

        agreed = f"{dtype.name} of shapes {shapes}, {how.name}"
        given = list(tensors)
        return self._run("all_reduce_coalesced", agreed, act, given, opts, inputs=given)

    @folds
    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Reduce each of several tensors over the members, and keep the parts for this member.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            outputs: The tensors to fill with this member's parts.
            inputs: The tensors to reduce; inputs[i] has the elements of size() tensors outputs[i].
            opts: ReduceScatterOptions; None: its defaults.

        Returns:
            A Work; wait() returns when the outputs may be used (immediately if not opts.asyncOp).
        """
        opts = ReduceScatterOptions() if opts is None else opts
        return start_together(self, "reduce_scatter_tensor", inputs, outputs, opts)

    @folds
    def reduce_scatter(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        op: Any = None,
    ) -> Work:
        """Reduce a list over the members, and keep the entry for this member's rank.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            output_tensors: A tensor, or a list of one; written.
            input_tensors: A list, or a list of one list, with one tensor per member.
            opts: ReduceScatterOptions, or a ReduceOp; None: its defaults.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.
            op: The reduction, such as ReduceOp.SUM; None: that of opts.

        Returns:
            A Work; wait() returns when the output may be used (immediately if not opts.asyncOp).
        """
        opts = options_for(ReduceScatterOptions, opts, timeout, reduceOp=op)
        (output,), (inputs,) = as_list(output_tensors), as_lists(input_tensors)
        require_target("reduce_scatter", "output", output)
        require_tensors("reduce_scatter", "input_list", inputs)
        require_length(self._size, "reduce_scatter", "input_list", inputs)
        require_one_dtype(output, *inputs)
        require_size("reduce_scatter", f"input_list[{self._rank}]", inputs[self._rank], output)
        how = reduction_of(opts.reduceOp, output._layout.dtype.numpy, "reduce_scatter")
        sizes = [one._layout.numel for one in inputs]

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target = memory.target(output, reads=False)
            joined = memory.join([memory.flat(one) for one in inputs])
            if min(sizes) == max(sizes):
                self._scatter_reduced(transport, call, target._array, joined, how)
            else:
                _reduce_all(transport, call, joined, how)
                begin = sum(sizes[: self._rank])
                memory.place(target._array, joined[begin : begin + sizes[self._rank]])
            target.done()

        shapes = [one._layout.shape for one in inputs]
        agreed = f"{output._layout.dtype.name} of shapes {shapes}, {how.name}"
        return self._run("reduce_scatter", agreed, act, [output], opts)

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """Reduce a tensor over the members, and keep the part for this member's rank."""
        opts = ReduceScatterOptions() if opts is None else opts
        what = "reduce_scatter_tensor"
        require_target(what, "output", output)
        require_readable(what, "input", input)
        if output._layout.dtype is not input._layout.dtype:
            raise TypeError(
                "input tensor must have the same type as output tensor: got "
                f"{input._layout.dtype} and {output._layout.dtype}"
            )
        if input._layout.numel != self._size * output._layout.numel:
            raise ValueError(
                "input tensor must be the same size as output size times world size: got "
                f"{input._layout.shape} for {self._size} of {output._layout.shape}"
            )
        how = reduction_of(opts.reduceOp, output._layout.dtype.numpy, what)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target = memory.target(output, reads=False)
            array = separate(memory, memory.flat(input), target._array)
            self._scatter_reduced(transport, call, target._array, array, how)
            target.done()

        return self._run(what, agreed_text(input, how.name), act, [output], opts)

    def _scatter_reduced(
        self,
        transport: Transport,
        call: Call,
        out: Any,
        array: Any,
        how: Reduction,
    ) -> None:
        memory = memory_of(transport)
        if how.factor is not None:
            array = memory.multiply(array, how.factor)
        rows = how.view(array)
        rows = rows.reshape((self._size, rows.size // self._size))
        transport.reduce_scatter(call, how.view(out), rows, memory.op_of(how))
        memory.divide(how, out, self._size)


def copy_parts(joined: Any, tensors: Sequence[Tensor], memory: Memory) -> None:
    """Copy consecutive parts of an array into tensors."""
    begin = 0
    for tensor in tensors:
        end = begin + tensor._layout.numel
        memory.copy_back(joined[begin:end], tensor)
        begin = end


def _reduce_all(transport: Transport, call: Call, array: Any, how: Reduction) -> None:
    memory = memory_of(transport)
    given = array if how.factor is None else memory.multiply(array, how.factor)
    transport.all_reduce(call, how.view(given), memory.op_of(how))
    memory.divide(how, given, transport.size)
    if given is not array:
        memory.place(array, given)


def _reduce_each(transport: Any, call: Call, tensors: Sequence[Tensor], how: Reduction) -> None:
    """Reduce several tensors in place, with one call per tensor; the calls start together."""
    memory = transport.memory
    targets = [memory.target(tensor, reads=True) for tensor in tensors]
    arrays = [target._array for target in targets]
    if how.factor is not None:
        arrays = [memory.multiply(array, how.factor) for array in arrays]
    with transport.grouped():
        for array in arrays:
            transport.all_reduce(call, how.view(array), memory.op_of(how))
    for target, array in zip(targets, arrays):
        if array is not target._array:
            memory.place(target._array, array)
        target.done()
