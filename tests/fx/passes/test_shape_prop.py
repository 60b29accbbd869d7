"""Shapes of all nodes of a graph."""

from __future__ import annotations

import fastdist as fd
from fastdist import fx
from fastdist.fx.passes.shape_prop import ShapeProp


def test_each_step_has_its_shape_and_dtype() -> None:
    traced = fx.symbolic_trace(lambda x: (x.double().T @ x.double()).chunk(2)[0].shape[0])
    assert ShapeProp(traced).propagate(fd.ones(3, 4)) == 2
    metas = {node.name: node.meta for node in traced.graph.nodes}
    assert metas["matmul"]["tensor_meta"].shape == (4, 4)
    assert metas["matmul"]["tensor_meta"].dtype is fd.float64
    assert [one.shape for one in metas["chunk"]["tensor_meta"]] == [(2, 4), (2, 4)]
    assert "tensor_meta" not in metas["output"] and metas["output"]["type"] is int
