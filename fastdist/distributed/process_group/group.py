"""ProcessGroup: the collectives of one group, as methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastdist.core.errors import CollectiveArgumentError

from ...tensor.tensor import Tensor
from .arrays import (
    agreed_text,
    require_alike,
    require_one_dtype,
    require_readable,
    require_target,
    require_tensors,
)
from .carriers import GroupingTransport
from .group_base import GroupBase
from .lists import (
    all_gather_lists,
    all_gather_together,
    all_reduce_together,
    only,
    require_coalescible,
    require_gather_lists,
    require_member_lists,
    require_root_tensor,
    rows_of,
    slices_of,
)
from .memory import Memory, memory_of
from .options import (
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    options_for,
)
from .point_to_point import Messages
from .reductions import Reduction, reduction_of
from .together import start_together
from .transport import Call, Transport
from .work import Work


class ProcessGroup(Messages, GroupBase):
    """A group of processes of a job; all members call the collectives in the same order.

    `init_process_group` and `new_group` create groups. The methods have PyTorch's names and take
    lists; programs usually call the functions of `fastdist.distributed`.

    Threads: any; collectives of one group run one at a time, sends and receives run in parallel.
    """

    def allreduce(
        self, tensors: Any, opts: Any = None, timeout: Any = None, *, op: Any = None
    ) -> Work:
        """Replace a tensor on all members by its reduction over the members.

        Several tensors are also reduced with each other, and all receive the result.
        """
        opts = options_for(AllreduceOptions, opts, timeout, reduceOp=op)
        tensors = _as_list(tensors)
        if len(tensors) != 1:
            return all_reduce_together(self, tensors, opts)
        (tensor,) = tensors
        if isinstance(tensor, Tensor) and tensor._layout.is_sparse:
            from .sparse import all_reduce_sparse

            return all_reduce_sparse(self, tensor, opts)
        require_target("all_reduce", "tensor", tensor)
        how = reduction_of(opts.reduceOp, tensor._layout.dtype.numpy, "all_reduce")

        def act(transport: Transport, call: Call) -> None:
            target = memory_of(transport).target(tensor, reads=True)
            _reduce_all(transport, call, target._array, how)
            target.done()

        return self._run("all_reduce", agreed_text(tensor, how.name), act, [tensor], opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        """Replace tensors of one dtype by their reductions, in one message."""
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

    def reduce(
        self,
        tensors: Any,
        opts: Any = None,
        op: Any = None,
        timeout: Any = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Replace tensors[0] of member `root` by the reduction `op`, and no other tensor."""
        opts = options_for(ReduceOptions, opts, timeout, rootRank=root, reduceOp=op)
        root = self._require_member("reduce", opts.rootRank)
        tensors = _as_list(tensors)
        tensor = only("reduce", "tensor list", tensors)
        require_root_tensor("reduce", opts.rootTensor, tensors)
        require_target("reduce", "tensor", tensor)
        how = reduction_of(opts.reduceOp, tensor._layout.dtype.numpy, "reduce")

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target = memory.target(tensor, reads=True)
            array, is_root = target._array, root == self._rank
            given = array if how.factor is None else memory.multiply(array, how.factor)
            transport.reduce(call, how.view(given), memory.op_of(how), root)
            if is_root:
                memory.divide(how, given, self._size)
                if given is not array:
                    memory.place(array, given)
                target.done()

        agreed = agreed_text(tensor, f"{how.name} at rank {root}")
        return self._run("reduce", agreed, act, [tensor], opts)

    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: Any = None, *, root: int | None = None
    ) -> Work:
        """Replace a tensor on all members by the root's tensor.

        If the root passes several tensors, `opts.rootTensor` selects one of them.
        """
        opts = options_for(BroadcastOptions, opts, timeout, rootRank=root)
        root = self._require_member("broadcast", opts.rootRank)
        tensors = _as_list(tensors)
        require_root_tensor("broadcast", opts.rootTensor, tensors)
        require_tensors("broadcast", "tensors", tensors, require_target)
        require_alike("broadcast", tensors)
        tensor = tensors[opts.rootTensor]

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target = memory.target(tensor, reads=True)
            transport.broadcast(call, target._array, root)
            if root != self._rank:
                target.done()
            for other in tensors:
                if other is not tensor:
                    memory.copy_back(target._array, other)

        agreed = agreed_text(tensor, f"from rank {root}")
        return self._run("broadcast", agreed, act, list(tensors), opts)

    def allgather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Any = None
    ) -> Work:
        """Fill output_tensors[0] with input_tensors[0] of all members; sizes may differ."""
        opts = options_for(AllgatherOptions, opts, timeout)
        lists, inputs = _as_lists(output_tensors), _as_list(input_tensors)
        require_gather_lists(output_tensors, lists, inputs, self._size)
        if len(inputs) > 1:
            return all_gather_together(self, lists, inputs, opts)
        (outs,), (tensor,) = lists, inputs
        require_readable("all_gather", "tensor", tensor)
        require_tensors("all_gather", "tensor_list", outs, require_target)
        require_one_dtype(tensor, *outs)
        shapes = [out._layout.shape for out in outs]
        _require_size("all_gather", f"tensor_list[{self._rank}]", outs[self._rank], tensor)
        if any(shape != shapes[0] for shape in shapes):
            agreed = f"{tensor._layout.dtype.name} of shapes {shapes}"
        else:
            agreed = agreed_text(outs[0])

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            array = memory.flat(tensor)
            sizes = [out._layout.numel for out in outs]
            if min(sizes) == max(sizes):
                room = memory.empty((self._size, array.size), array.dtype)
                transport.all_gather(call, room, array)
                found = [room[rank] for rank in range(self._size)]
            else:
                found = [memory.empty(size, array.dtype) for size in sizes]
                transport.all_to_all(call, found, [array] * self._size)
            for out, part in zip(outs, found):
                memory.copy_back(part, out)

        return self._run("all_gather", agreed, act, [*outs], opts)

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        """Fill `output_lists[member][i]` with that member's `input_list[i]`."""
        opts = AllgatherOptions() if opts is None else opts
        require_member_lists(output_lists, input_list, self._size)
        return all_gather_lists(self, output_lists, input_list, opts)

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Fill `outputs[i]` with `inputs[i]` of all members, for each index i."""
        opts = AllgatherOptions() if opts is None else opts
        return start_together(self, "all_gather_into_tensor", inputs, outputs, opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Reduce `inputs[i]`, and store this member's part in `outputs[i]`, for each index i."""
        opts = ReduceScatterOptions() if opts is None else opts
        return start_together(self, "reduce_scatter_tensor", inputs, outputs, opts)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """Fill one tensor with the concatenated tensors of all members."""
        opts = AllgatherOptions() if opts is None else opts
        what = "all_gather_into_tensor"
        require_target(what, "output_tensor", output)
        require_readable(what, "input_tensor", input)
        if output._layout.dtype is not input._layout.dtype:
            raise TypeError(
                "output tensor must have the same type as input tensor: got "
                f"{output._layout.dtype} and {input._layout.dtype}"
            )
        if output._layout.numel != self._size * input._layout.numel:
            raise ValueError(
                "output tensor size must be equal to world_size times input tensor size: got "
                f"{output._layout.shape} for {self._size} of {input._layout.shape}"
            )

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target, array = memory.target(output, reads=False), memory.flat(input)
            room = target._array.reshape((self._size, array.size))
            transport.all_gather(call, room, _apart(memory, array, room, self._rank))
            target.done()

        return self._run(what, agreed_text(input), act, [output], opts)

    def reduce_scatter(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        op: Any = None,
    ) -> Work:
        """Reduce the list input_tensors[0] by `op`; output_tensors[0] gets this member's entry."""
        opts = options_for(ReduceScatterOptions, opts, timeout, reduceOp=op)
        (output,), (inputs,) = _as_list(output_tensors), _as_lists(input_tensors)
        require_target("reduce_scatter", "output", output)
        require_tensors("reduce_scatter", "input_list", inputs)
        self._require_length("reduce_scatter", "input_list", inputs)
        require_one_dtype(output, *inputs)
        _require_size("reduce_scatter", f"input_list[{self._rank}]", inputs[self._rank], output)
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
            array = _own(memory, memory.flat(input), target._array)
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

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        opts: Any = None,
        timeout: Any = None,
    ) -> Work:
        """Send rows of `input` to each member, and fill `output` with the received rows."""
        opts = options_for(AllToAllOptions, opts, timeout)
        require_target("all_to_all_single", "output", output)
        require_readable("all_to_all_single", "input", input)
        require_one_dtype(output, input)
        came = rows_of(output, output_split_sizes, self._size)
        sent = rows_of(input, input_split_sizes, self._size)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target = memory.target(output, reads=False)
            array = _own(memory, memory.flat(input), target._array)
            outs = slices_of(target._array, output, came)
            transport.all_to_all(call, outs, slices_of(array, input, sent))
            target.done()

        agreed = f"{input._layout.dtype.name}, rows of shape {input._layout.shape[1:]}"
        return self._run("all_to_all_single", agreed, act, [output], opts)

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """Send input_tensors[i] to member i, and fill output_tensors[i] with member i's tensor."""
        opts = AllToAllOptions() if opts is None else opts
        outs, inputs = _as_list(output_tensors), _as_list(input_tensors)
        require_tensors("all_to_all", "output_tensor_list", outs, require_target)
        require_tensors("all_to_all", "input_tensor_list", inputs)
        self._require_length("all_to_all", "output_tensor_list", outs)
        self._require_length("all_to_all", "input_tensor_list", inputs)
        require_one_dtype(*outs, *inputs)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            found = [memory.empty(out._layout.numel, out._layout.dtype.numpy) for out in outs]
            transport.all_to_all(call, found, [memory.flat(one) for one in inputs])
            for out, part in zip(outs, found):
                memory.copy_back(part, out)

        return self._run("all_to_all", outs[0]._layout.dtype.name, act, [*outs], opts)

    def gather(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Fill output_tensors[0] of member `root` with input_tensors[0] of all members."""
        opts = options_for(GatherOptions, opts, timeout, rootRank=root)
        root = self._require_member("gather", opts.rootRank)
        tensor = only("gather", "input tensor list", _as_list(input_tensors))
        require_readable("gather", "tensor", tensor)
        outs = self._of_root("gather", "output", output_tensors, is_root=root == self._rank)
        if root == self._rank:
            require_tensors("gather", "gather_list", outs, require_target)
            require_one_dtype(tensor, *outs)
            for index, out in enumerate(outs):
                _require_size("gather", f"gather_list[{index}]", out, tensor)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            array = memory.flat(tensor)
            found = [memory.empty(array.size, array.dtype) for _ in outs]
            transport.gather(call, found if root == self._rank else None, array, root)
            for out, part in zip(outs, found):
                memory.copy_back(part, out)

        agreed = agreed_text(tensor, f"at rank {root}")
        return self._run("gather", agreed, act, [*outs] or [tensor], opts)

    def scatter(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Fill each member's output_tensors[0] with its entry of the list of member `root`."""
        opts = options_for(ScatterOptions, opts, timeout, rootRank=root)
        root = self._require_member("scatter", opts.rootRank)
        output = only("scatter", "output tensor list", _as_list(output_tensors))
        require_target("scatter", "tensor", output)
        inputs = self._of_root("scatter", "input", input_tensors, is_root=root == self._rank)
        if root == self._rank:
            require_tensors("scatter", "scatter_list", inputs)
            require_one_dtype(output, *inputs)
            for index, one in enumerate(inputs):
                _require_size("scatter", f"scatter_list[{index}]", one, output)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target = memory.target(output, reads=False)
            arrays = [_own(memory, memory.flat(one), target._array) for one in inputs]
            room = target._array
            transport.scatter(call, room, arrays if root == self._rank else None, root)
            target.done()

        agreed = agreed_text(output, f"from rank {root}")
        return self._run("scatter", agreed, act, [output], opts)

    def barrier(self, opts: Any = None, timeout: Any = None) -> Work:
        """Wait until all members have called barrier()."""
        opts = options_for(BarrierOptions, opts, timeout)

        def act(transport: Transport, call: Call) -> None:
            transport.barrier(call)

        return self._run("barrier", "", act, [], opts)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Wait until all members have called this; the error on rank 0 names missing members."""
        from .arrivals import wait_for_members

        wait_for_members(self, timeout, wait_all_ranks)

    def _require_member(self, what: str, rank: int) -> int:
        if not 0 <= rank < self._size:
            raise CollectiveArgumentError(
                f"{what}: invalid root rank: {rank}; the group has ranks 0 to {self._size - 1}"
            )
        return rank

    def _require_length(self, what: str, name: str, tensors: Sequence[Tensor]) -> None:
        if len(tensors) != self._size:
            raise CollectiveArgumentError(
                f"{what}: invalid `{name}` (expected length {self._size}, got {len(tensors)}): it "
                "has one tensor for each member of the group"
            )

    def _of_root(self, what: str, kind: str, given: Any, *, is_root: bool) -> list[Tensor]:
        """Return the root's list for a gather or scatter; other members' lists must be empty."""
        if not is_root:
            if any(_as_lists(given)):
                raise CollectiveArgumentError(f"{what}: requires empty {kind} on non-root")
            return []
        tensors: list[Tensor] = only(what, f"{kind} list", _as_lists(given) if given else [])
        if len(tensors) != self._size:
            raise CollectiveArgumentError(
                f"{what}: Incorrect {kind} list size {len(tensors)}. {kind.capitalize()} list "
                f"size should be {self._size}, same as size of the process group."
            )
        return tensors


ProcessGroup.__module__ = "fastdist.distributed.distributed_c10d"


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


def _apart(memory: Any, array: Any, room: Any, rank: int) -> Any:
    """Return `array`, or a copy if it overlaps `room` and does not begin at `room[rank]`."""
    if not memory.overlap(array, room) or memory.address(array) == memory.address(room[rank]):
        return array
    return memory.copy(array)


def _own(memory: Any, array: Any, target: Any) -> Any:
    return memory.copy(array) if memory.overlap(array, target) else array


def _require_size(what: str, name: str, one: Tensor, other: Tensor) -> None:
    if one._layout.numel != other._layout.numel:
        raise CollectiveArgumentError(
            f"{what}: invalid tensor size of `{name}` (expected {tuple(other._layout.shape)}, got "
            f"{tuple(one._layout.shape)})"
        )


def _as_list(tensors: Any) -> Any:
    """Return a list of tensors; a single tensor becomes a list, as in PyTorch."""
    return [tensors] if isinstance(tensors, Tensor) else tensors


def _as_lists(tensors: Any) -> Any:
    """Return a list of lists of tensors; a list of tensors becomes a list with this one entry."""
    is_list = isinstance(tensors, list | tuple) and (
        not tensors or isinstance(tensors[0], Tensor) or not isinstance(tensors[0], list | tuple)
    )
    return [tensors] if is_list else tensors
