"""Methods of ProcessGroup that send the tensors of all members to all members."""

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
from ..group_base import GroupBase
from ..lists import (
    all_gather_lists,
    all_gather_together,
    require_gather_lists,
    require_member_lists,
    rows_of,
    slices_of,
)
from ..memory import memory_of
from ..options import AllgatherOptions, AllToAllOptions, options_for
from ..together import start_together
from ..transport import Call, Transport
from ..work import Work
from .arguments import as_list, as_lists, require_length, require_size, separate


class Gathers(GroupBase):
    """Methods after which each member has tensors of all members."""

    @folds
    def allgather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Any = None
    ) -> Work:
        """Fill a list on all members with the tensors of all members.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            output_tensors: A list that has the list to fill, which has one tensor per member.
            input_tensors: A tensor, or a list with one tensor per list to fill.
            opts: AllgatherOptions; None: its defaults.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.

        Returns:
            A Work; wait() returns when the list may be used (immediately if not opts.asyncOp).
        """
        opts = options_for(AllgatherOptions, opts, timeout)
        lists, inputs = as_lists(output_tensors), as_list(input_tensors)
        require_gather_lists(output_tensors, lists, inputs, self._size)
        if len(inputs) > 1:
            return all_gather_together(self, lists, inputs, opts)
        (outs,), (tensor,) = lists, inputs
        require_readable("all_gather", "tensor", tensor)
        require_tensors("all_gather", "tensor_list", outs, require_target)
        require_one_dtype(tensor, *outs)
        shapes = [out._layout.shape for out in outs]
        require_size("all_gather", f"tensor_list[{self._rank}]", outs[self._rank], tensor)
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

    @folds
    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        """Fill `output_lists[member][i]` with `input_list[i]` of that member, in one message.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            output_lists: One list per member, with the shapes and dtypes of input_list.
            input_list: The tensors of this member.
            opts: AllgatherOptions; None: its defaults.

        Returns:
            A Work; wait() returns when the lists may be used (immediately if not opts.asyncOp).
        """
        opts = AllgatherOptions() if opts is None else opts
        require_member_lists(output_lists, input_list, self._size)
        return all_gather_lists(self, output_lists, input_list, opts)

    @folds
    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """Fill each of several tensors with the concatenated tensors of all members.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            outputs: The tensors to fill; outputs[i] has the elements of size() tensors inputs[i].
            inputs: The tensors of this member.
            opts: AllgatherOptions; None: its defaults.

        Returns:
            A Work; wait() returns when the outputs may be used (immediately if not opts.asyncOp).
        """
        opts = AllgatherOptions() if opts is None else opts
        return start_together(self, "all_gather_into_tensor", inputs, outputs, opts)

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

    @folds
    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        opts: Any = None,
        timeout: Any = None,
    ) -> Work:
        """Send rows of `input` to each member, and fill `output` with the received rows.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            output: Written; the rows from member 0 come first, then those from member 1, and so on.
            input: The rows for member 0, then those for member 1, and so on.
            output_split_sizes: The number of rows from each member; None: equal parts.
            input_split_sizes: The number of rows for each member; None: equal parts.
            opts: AllToAllOptions; None: its defaults.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.

        Returns:
            A Work; wait() returns when the output may be used (immediately if not opts.asyncOp).
        """
        opts = options_for(AllToAllOptions, opts, timeout)
        require_target("all_to_all_single", "output", output)
        require_readable("all_to_all_single", "input", input)
        require_one_dtype(output, input)
        came = rows_of(output, output_split_sizes, self._size)
        sent = rows_of(input, input_split_sizes, self._size)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target = memory.target(output, reads=False)
            array = separate(memory, memory.flat(input), target._array)
            outs = slices_of(target._array, output, came)
            transport.all_to_all(call, outs, slices_of(array, input, sent))
            target.done()

        agreed = f"{input._layout.dtype.name}, rows of shape {input._layout.shape[1:]}"
        return self._run("all_to_all_single", agreed, act, [output], opts)

    @folds
    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """Send one tensor to each member, and fill a list with the tensors from all members.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            output_tensors: The list to fill: output_tensors[i] is received from member i.
            input_tensors: A list: input_tensors[i] is sent to member i.
            opts: AllToAllOptions; None: its defaults.

        Returns:
            A Work; wait() returns when the list may be used (immediately if not opts.asyncOp).
        """
        opts = AllToAllOptions() if opts is None else opts
        outs, inputs = as_list(output_tensors), as_list(input_tensors)
        require_tensors("all_to_all", "output_tensor_list", outs, require_target)
        require_tensors("all_to_all", "input_tensor_list", inputs)
        require_length(self._size, "all_to_all", "output_tensor_list", outs)
        require_length(self._size, "all_to_all", "input_tensor_list", inputs)
        require_one_dtype(*outs, *inputs)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            found = [memory.empty(out._layout.numel, out._layout.dtype.numpy) for out in outs]
            transport.all_to_all(call, found, [memory.flat(one) for one in inputs])
            for out, part in zip(outs, found):
                memory.copy_back(part, out)

        return self._run("all_to_all", outs[0]._layout.dtype.name, act, [*outs], opts)


def _apart(memory: Any, array: Any, room: Any, rank: int) -> Any:
    """Return `array`, or a copy if it overlaps `room` and does not begin at `room[rank]`."""
    if not memory.overlap(array, room) or memory.address(array) == memory.address(room[rank]):
        return array
    return memory.copy(array)
