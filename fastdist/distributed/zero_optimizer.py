"""ZeroRedundancyOptimizer: each process keeps the optimizer state of a part of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..core.missing import explain_missing
from ..graph.modes import no_grad
from ..optim.optimizer import Optimizer
from ..tensor.tensor import Tensor
from .data_parallel.same_model import broadcast_tensors, require_same_model
from .process_group.objects import gather_object
from .process_group.world import group_of

__all__ = ["ZeroRedundancyOptimizer"]

Group = dict[str, Any]


class ZeroRedundancyOptimizer(Optimizer):
    """Updates parameters that all processes of a group have; each process updates a part of them.

    A process keeps the state of its part only: for Adam in a group of n, one n-th of the moments.
    After a step each process broadcasts its part. If the gradients are equal on all processes, as
    after DistributedDataParallel, the result is that of an ordinary optimizer.

    Raises  RuntimeError if the parameters differ between the processes; ValueError if a parameter
            is sparse; NotImplementedError if overlap_with_ddp is True

    Args:
        params: The parameters, or dicts with "params" and the options of one parameter group; the
            same on all processes.
        optimizer_class: The optimizer class for each part, such as optim.Adam.
        process_group: The process group; the default group if None.
        parameters_as_bucket_view: Ignored: parameters keep their memory layout.
        overlap_with_ddp: Not supported.
        defaults: Options for optimizer_class.

    Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion
        Parameter Models", stage 1
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not supported; leave it out, and the "
                "step follows backward"
            )
        self.process_group = group_of(process_group)
        self._optim_cls, self._optim_defaults = optimizer_class, dict(defaults)
        self._owners: dict[Tensor, int] = {}
        # The number of elements that each rank updates.
        self._loads = [0] * self.process_group.size()
        self._consolidated: Group | None = None
        self._is_set_up = False
        super().__init__(params, dict(defaults))
        if any(one._layout.is_sparse for one in self._all_parameters()):
            raise ValueError(
                "ZeroRedundancyOptimizer: parameters are dense tensors, and one is sparse; call "
                "to_dense(), or step it by another optimizer"
            )
        named = [(f"params[{i}]", one) for i, one in enumerate(self._all_parameters())]
        require_same_model(self.process_group, named)
        self.optim: Optimizer | None = self._make_own()
        self._take_defaults()
        self._is_set_up = True

    def _all_parameters(self) -> list[Tensor]:
        return [one for group in self.param_groups for one in group["params"]]

    def _assign(self, parameters: Iterable[Tensor]) -> None:
        """Assign each parameter, largest first, to the rank with the fewest elements."""
        for parameter in sorted(parameters, key=lambda one: -one.numel()):
            owner = self._loads.index(min(self._loads))
            self._owners[parameter] = owner
            self._loads[owner] += parameter.numel()

    def _own_part(self, group: Group) -> Group:
        rank = self.process_group.rank()
        own = [one for one in group["params"] if self._owners[one] == rank]
        return {**group, "params": own}

    def _make_own(self) -> Optimizer | None:
        parts = [self._own_part(group) for group in self.param_groups]
        if not any(part["params"] for part in parts):
            return None
        return self._optim_cls(parts, **self._optim_defaults)

    def _take_defaults(self) -> None:
        """Copy the default options of optimizer_class to the parameter groups of this object, where
        schedulers read them.
        """
        if self.optim is None:
            return
        for whole, part in zip(self.param_groups, self.optim.param_groups):
            for name, value in part.items():
                if name != "params":
                    whole.setdefault(name, value)

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with their own options; all processes must make the same call."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        self._assign(group["params"])
        if not self._is_set_up:
            return
        part = self._own_part(group)
        if self.optim is not None:
            self.optim.add_param_group(part)
        elif part["params"]:
            self.optim = self._make_own()
        self._take_defaults()

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Step this process's part of the parameters, and receive the other parts.

        Args:
            closure: Computes the loss again; passed to optimizer_class.
            kwargs: Passed to the step of optimizer_class.

        Returns:
            The result of the closure.
        """
        loss = None
        if self.optim is not None:
            self._copy_options(self.param_groups, self.optim.param_groups)
            loss = self.optim.step(closure, **kwargs) if closure else self.optim.step(**kwargs)
            self._copy_options(self.optim.param_groups, self.param_groups)
        elif closure is not None:
            loss = closure()
        self._consolidated = None
        self._share()
        return loss

    @staticmethod
    def _copy_options(source: list[Group], target: list[Group]) -> None:
        for one, other in zip(source, target):
            for name, value in one.items():
                if name != "params":
                    other[name] = value

    def _share(self) -> None:
        with no_grad():
            for rank in range(self.process_group.size()):
                own = [one.detach() for one, owner in self._owners.items() if owner == rank]
                broadcast_tensors(self.process_group, own, rank)

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the states of all parts on one process, for its state_dict().

        All processes must call this.

        Args:
            to: The group rank of the process that receives the states.
        """
        self._consolidated = None
        rank = self.process_group.rank()
        numbers = {one: number for number, one in enumerate(self._all_parameters())}
        own = {} if self.optim is None else self.optim.state
        states = {numbers[one]: dict(state) for one, state in own.items()}
        found: list[Any] | None = [None] * self.process_group.size() if rank == to else None
        gather_object(states, found, group=self.process_group, group_dst=to)
        if found is None:
            return
        joined = {number: state for part in found for number, state in part.items()}
        self._consolidated = {
            "state": dict(sorted(joined.items())),
            "param_groups": self._packed_groups(),
        }

    def _packed_groups(self) -> list[Group]:
        begin, groups = 0, []
        for group in self.param_groups:
            end = begin + len(group["params"])
            groups.append({**group, "params": list(range(begin, end))})
            begin = end
        return groups

    def state_dict(self) -> Group:
        """Return the complete state, in the format of an ordinary optimizer.

        Raises  RuntimeError if consolidate_state_dict was not called after the last step, or sent
                the states to another process
        """
        if self._consolidated is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.process_group.rank()})` on all ranks beforehand "
                "if you meant to save the global state."
            )
        return dict(self._consolidated)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load this process's part of a complete state, saved by any number of processes.

        Raises  ValueError if the parameter groups, or their numbers of parameters, are different

        Args:
            state_dict: The result of state_dict() of this class or of an ordinary optimizer; the
                same on all processes.
        """
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in groups]
        if sizes != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("loaded state dict has a different number of parameters or groups")
        self._consolidated = None
        self._copy_options(groups, self.param_groups)
        if self.optim is None:
            return
        own = {id(one): i for i, one in enumerate(self._own_parameters())}
        states = {
            own[id(one)]: state_dict["state"][number]
            for number, one in enumerate(self._all_parameters())
            if id(one) in own and number in state_dict["state"]
        }
        local: list[Group] = []
        begin = 0
        for group, part in zip(groups, self.optim.param_groups):
            end = begin + len(part["params"])
            local.append({**group, "params": list(range(begin, end))})
            begin = end
        self.optim.load_state_dict({"state": states, "param_groups": local})

    def _own_parameters(self) -> list[Tensor]:
        assert self.optim is not None
        return [one for group in self.optim.param_groups for one in group["params"]]


explain_missing(__name__)
