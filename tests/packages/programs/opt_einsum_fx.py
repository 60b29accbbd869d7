"""Trace a function into a graph, and let opt_einsum_fx order its contractions."""

import opt_einsum_fx
import torch
from data import random, report


def contract(x, y, z):
    """Contract three matrices in the order x, y, z."""
    return torch.einsum("ik,kl->il", torch.einsum("ij,jk->ik", x, y) * 2.0, z)


given = random(4, 5), random(5, 6, seed=2), random(6, 3, seed=3)
graph = opt_einsum_fx.optimize_einsums_full(torch.fx.symbolic_trace(contract), given)
report(out=graph(*given), calls=sum(node.target is torch.tensordot for node in graph.graph.nodes))
