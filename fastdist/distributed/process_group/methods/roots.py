"""Methods of ProcessGroup in which one member, the root, has another part than the others."""

from __future__ import annotations

from typing import Any

from fastdist.core.errors import CollectiveArgumentError

from ....core.folded_frames import folds
from ....tensor.tensor import Tensor
from ..arrays import (
    agreed_text,
    require_alike,
    require_one_dtype,
    require_readable,
    require_target,
    require_tensors,
)
from ..group_base import GroupBase
from ..lists import only, require_root_tensor
from ..memory import memory_of
from ..options import (
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ScatterOptions,
    options_for,
)
from ..reductions import reduction_of
from ..transport import Call, Transport
from ..work import Work
from .arguments import as_list, as_lists, require_size, separate


class Roots(GroupBase):
    """Methods with a root, given by its group rank."""

    @folds
    def reduce(
        self,
        tensors: Any,
        opts: Any = None,
        op: Any = None,
        timeout: Any = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Replace a tensor on one member, the root, by its reduction over the members.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            tensors: A tensor, or a list of one: read on all members, written on the root.
            opts: ReduceOptions, or the root's rank; None: its defaults.
            op: The reduction, such as ReduceOp.SUM; None: that of opts.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.
            root: The group rank of the root; None: that of opts.

        Returns:
            A Work; wait() returns when the tensor may be used (immediately if not opts.asyncOp).

        Example:
            >>> x = torch.ones(2)
            >>> dist.group.WORLD.reduce([x], root=0).wait()
            True
        """
        opts = options_for(ReduceOptions, opts, timeout, rootRank=root, reduceOp=op)
        root = self._require_member("reduce", opts.rootRank)
        tensors = as_list(tensors)
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

    @folds
    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: Any = None, *, root: int | None = None
    ) -> Work:
        """Replace a tensor on all members by the tensor of one member, the root.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            tensors: A tensor, or a list of tensors, which are written. If the root passes several,
                opts.rootTensor selects one, and all tensors receive it.
            opts: BroadcastOptions, or the root's rank; None: its defaults.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.
            root: The group rank of the root; None: that of opts.

        Returns:
            A Work; wait() returns when the tensors may be used (immediately if not opts.asyncOp).

        Example:
            >>> x = torch.ones(2)
            >>> dist.group.WORLD.broadcast([x], root=0).wait()
            True
        """
        opts = options_for(BroadcastOptions, opts, timeout, rootRank=root)
        root = self._require_member("broadcast", opts.rootRank)
        tensors = as_list(tensors)
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

    @folds
    def gather(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Fill a list on one member, the root, with the tensors of all members.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            output_tensors: On the root, a list of one list, with one tensor per member; else empty.
            input_tensors: A tensor, or a list of one.
            opts: GatherOptions, or the root's rank; None: its defaults.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.
            root: The group rank of the root; None: that of opts.

        Returns:
            A Work; wait() returns when the list may be used (immediately if not opts.asyncOp).
        """
        opts = options_for(GatherOptions, opts, timeout, rootRank=root)
        root = self._require_member("gather", opts.rootRank)
        tensor = only("gather", "input tensor list", as_list(input_tensors))
        require_readable("gather", "tensor", tensor)
        outs = self._of_root("gather", "output", output_tensors, is_root=root == self._rank)
        if root == self._rank:
            require_tensors("gather", "gather_list", outs, require_target)
            require_one_dtype(tensor, *outs)
            for index, out in enumerate(outs):
                require_size("gather", f"gather_list[{index}]", out, tensor)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            array = memory.flat(tensor)
            found = [memory.empty(array.size, array.dtype) for _ in outs]
            transport.gather(call, found if root == self._rank else None, array, root)
            for out, part in zip(outs, found):
                memory.copy_back(part, out)

        agreed = agreed_text(tensor, f"at rank {root}")
        return self._run("gather", agreed, act, [*outs] or [tensor], opts)

    @folds
    def scatter(
        self,
        output_tensors: Any,
        input_tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        *,
        root: int | None = None,
    ) -> Work:
        """Fill a tensor on each member with an entry of the list of one member, the root.

        Raises  TypeError, ValueError or RuntimeError if an argument is wrong, before anything is
                sent; CollectiveError if a member is lost, did not call in time or called another
                collective: from wait() if opts.asyncOp is True, the default

        Args:
            output_tensors: A tensor, or a list of one; written.
            input_tensors: On the root, a list of one list, with one tensor per member; else empty.
            opts: ScatterOptions, or the root's rank; None: its defaults.
            timeout: The longest time, a timedelta or seconds; None: the group's timeout.
            root: The group rank of the root; None: that of opts.

        Returns:
            A Work; wait() returns when the tensor may be used (immediately if not opts.asyncOp).
        """
        opts = options_for(ScatterOptions, opts, timeout, rootRank=root)
        root = self._require_member("scatter", opts.rootRank)
        output = only("scatter", "output tensor list", as_list(output_tensors))
        require_target("scatter", "tensor", output)
        inputs = self._of_root("scatter", "input", input_tensors, is_root=root == self._rank)
        if root == self._rank:
            require_tensors("scatter", "scatter_list", inputs)
            require_one_dtype(output, *inputs)
            for index, one in enumerate(inputs):
                require_size("scatter", f"scatter_list[{index}]", one, output)

        def act(transport: Transport, call: Call) -> None:
            memory = memory_of(transport)
            target = memory.target(output, reads=False)
            arrays = [separate(memory, memory.flat(one), target._array) for one in inputs]
            room = target._array
            transport.scatter(call, room, arrays if root == self._rank else None, root)
            target.done()

        agreed = agreed_text(output, f"from rank {root}")
        return self._run("scatter", agreed, act, [output], opts)

    def _require_member(self, what: str, rank: int) -> int:
        if not 0 <= rank < self._size:
            raise CollectiveArgumentError(
                f"{what}: invalid root rank: {rank}; the group has ranks 0 to {self._size - 1}"
            )
        return rank

    def _of_root(self, what: str, kind: str, given: Any, *, is_root: bool) -> list[Tensor]:
        """Return the root's list for a gather or scatter; other members' lists must be empty."""
        if not is_root:
            if any(as_lists(given)):
                raise CollectiveArgumentError(f"{what}: requires empty {kind} on non-root")
            return []
        tensors: list[Tensor] = only(what, f"{kind} list", as_lists(given) if given else [])
        if len(tensors) != self._size:
            raise CollectiveArgumentError(
                f"{what}: Incorrect {kind} list size {len(tensors)}. {kind.capitalize()} list "
                f"size should be {self._size}, same as size of the process group."
            )
        return tensors
