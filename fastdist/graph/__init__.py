"""The autograd graph: Nodes and edges, AccumulateGrad, grad mode, hooks, forward-mode levels.

Dispatch records into the graph and does not import the engine; the engine runs the graph and does
not import dispatch. `tensor_methods.py` attaches the attributes of Tensor that concern recording
(`requires_grad`, `grad`, `grad_fn`, hooks).

`node.py` and `call_node.py` have the base classes of Nodes; for users, all Nodes of one name have
one class. `saved_tensors.py` packs the tensors that a Node saves, and `unpacking.py` checks and
unpacks them. `unbroadcast.py` reduces a gradient to the shape, dtype and device of its input.
`views.py` makes views, and can apply the steps of a view again. `inplace_history.py` gives new
edges to tensors that are changed in place, and to their views. `forward_grad.py` has the levels of
forward mode, and `tensor_tangents.py` has the tangents of tensors and views at these levels.
`lazy_conj_neg.py` has the view that `conj()` returns, whose values are computed when they are read.
`transform_inputs.py` holds the inputs that a transform of `func` differentiates by, so that code
which would silently cut the graph can raise an error.

docs/glossary.md explains the terms.
"""
