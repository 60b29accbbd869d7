"""Containers as trees: `torch.utils._pytree`; see tensor/pytree.py."""

from ..core.missing import explain_missing
from ..tensor.pytree import (
    LeafSpec,
    PyTree,
    TreeSpec,
    register_pytree_node,
    tree_all,
    tree_all_only,
    tree_any,
    tree_any_only,
    tree_flatten,
    tree_is_leaf,
    tree_iter,
    tree_leaves,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_map_only_,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "LeafSpec", "PyTree", "TreeSpec", "register_pytree_node", "tree_all", "tree_all_only",
    "tree_any", "tree_any_only", "tree_flatten", "tree_is_leaf", "tree_iter", "tree_leaves",
    "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_structure", "tree_unflatten",
]  # fmt: skip

explain_missing(__name__)
