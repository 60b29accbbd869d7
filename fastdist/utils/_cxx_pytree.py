"""PyTorch's trees on the package optree, which it has where optree is installed; not here."""

raise ImportError(
    f"{__name__} is not here: it flattens trees by the package optree; utils._pytree has the same "
    "functions"
)
