"""PyTorch's pytree functions that use the package optree: not supported."""

raise ImportError(
    f"{__name__} is not here: it flattens trees by the package optree; utils._pytree has the same "
    "functions"
)
