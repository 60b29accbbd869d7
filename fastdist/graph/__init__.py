"""The recording: Nodes and edges, AccumulateGrad, grad mode, hooks, forward-mode levels.

Dispatch records into the graph and does not know the engine; the engine runs the graph and does not
know dispatch. The parts of Tensor that concern recording (`requires_grad`, `grad`, `grad_fn`,
hooks) are attached to it here (`tensor_methods.py`).

`node.py` and `call_node.py` are the base classes of Nodes; users see all Nodes of one name as one
class. `saved_tensors.py` packs what a Node saves, `unpacking.py` checks and unpacks it.
`unbroadcast.py` reduces a gradient to the shape, dtype and device of its input. `views.py` makes
views, and makes them again by their steps; `inplace_history.py` gives tensors that are changed in
place, and their views, a new place in the graph. `forward_grad.py` has the levels of forward mode,
`tensor_tangents.py` the tangents that tensors and their views have at them. `lazy_conj_neg.py` is
the view that `conj()` returns: its numbers are computed when they are read. `transform_inputs.py`
holds the inputs that a transform of `func` differentiates by, for code that would otherwise cut the
graph silently.

The terms are explained in docs/glossary.md.
"""
