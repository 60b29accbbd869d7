"""Texts of the errors of reductions; most texts name parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. "
    "This error indicates that your "
)


def unfinished(
    rank: int, missing: Sequence[int], names: Sequence[str], *, finds: bool, static: bool
) -> str:
    """Return the error for a forward that starts while gradients of the last backward are missing.

    Args:
        rank: The group rank of this process.
        missing: The indices of the parameters without a gradient.
        names: The names of all parameters.
        finds: Whether find_unused_parameters is on.
        static: Whether static_graph is on.
    """
    if static:
        text = (
            "training graph has changed in this iteration, e.g., one parameter is used in first "
            "iteration, but then got unused in the second iteration. this is not compatible with "
            "static_graph set to True."
        )
    elif finds:
        text = (
            "module has parameters that were not used in producing loss. Since "
            "`find_unused_parameters=True` is enabled, this likely means that not all `forward` "
            "outputs participate in computing loss. You can fix this by making sure all `forward` "
            "function outputs participate in calculating loss."
        )
    else:
        text = (
            "module has parameters that were not used in producing loss. You can enable unused "
            "parameter detection by passing the keyword argument `find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` "
            "function outputs participate in calculating loss."
        )
    return _UNFINISHED + text + _missing(rank, missing, names)


def _missing(rank: int, missing: Sequence[int], names: Sequence[str]) -> str:
    numbers = " ".join(map(str, missing))
    listed = ", ".join(names[index] for index in missing)
    return (
        f"\nParameter indices which did not receive grad for rank {rank}: {numbers}"
        f"\nParameters which did not receive grad for rank {rank}: {listed}"
    )


def ready_twice(index: int, name: str) -> str:
    """Return the error for a parameter that got its gradient twice in one backward pass."""
    return (
        "Expected to mark a variable ready only once. This error is caused by one of the following "
        "reasons: 1) Use of a module parameter outside the `forward` function. 2) Reused "
        "parameters in multiple reentrant backward passes, such as several checkpointed parts "
        "that share a module; set static_graph=True if the graph is the same in each iteration. "
        "3) Unused parameters are looked for, and one that the outputs do not show was used in a "
        f"checkpointed part. Parameter at index {index} with name {name} has been marked as ready "
        "twice."
    )


def graph_changed(index: int, name: str) -> str:
    """Return the error for a parameter that gets more gradients than in the first iteration."""
    return (
        "Your training graph has changed in this iteration, e.g., one parameter is unused in first "
        "iteration, but then got used in the second iteration. this is not compatible with "
        f"static_graph set to True. It is the parameter at index {index} with name {name}."
    )


def not_reduced(names: Iterable[str]) -> str:
    """Return the error for autograd.grad that would return gradients of the given parameters."""
    listed = ", ".join(names)
    return (
        "autograd.grad through DistributedDataParallel would return gradients of this process "
        f"alone, for the parameters {listed}: call backward(), which reduces .grad over the group, "
        "or call the module inside of no_sync() for gradients of this process"
    )


CREATE_GRAPH = (
    "backward(create_graph=True) through DistributedDataParallel: a gradient that is recorded "
    "cannot be reduced over the group, as collectives are not differentiable here. For a penalty "
    "on gradients call autograd.grad by the inputs with create_graph=True, and backward() on the "
    "loss with the penalty; or call the module inside of no_sync()"
)
HOOK_TWICE = "register_comm_hook or register_builtin_comm_hook can only be called once."
HOOK_LATE = (
    "register_comm_hook was called after the first backward, which has reduced gradients without "
    "the hook: register it right after the construction"
)
STATIC_LATE = (
    "set_static_graph() should be called before training loop starts and after "
    "DistributedDataParallel is constructed."
)
NONE_UNUSED = (
    "find_unused_parameters=True was specified in DDP constructor, but did not find any unused "
    "parameters in the forward pass. This flag results in an extra traversal of the autograd graph "
    "every iteration, which can adversely affect performance. If your model indeed never has any "
    "unused parameters in the forward pass, consider turning this flag off."
)
