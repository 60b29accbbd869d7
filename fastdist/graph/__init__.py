"""What is recorded: Nodes and edges, AccumulateGrad, grad mode, hooks, forward-mode levels.

Dispatch records into these without knowing the engine; the engine plays them back without knowing
dispatch. What recording means to a Tensor (`requires_grad`, `grad`, `grad_fn`, hooks) is attached
to it here; what Nodes saved is unpacked (`unpacking.py`), and the gradients that they make are
brought to what their inputs are (`unbroadcast.py`). Whatever made them, users see Nodes of one
name as of one class (`call_node.py`). What conj() returns is here, too: a
view that computes when it is read, and stands in the graph for that (`lazy_conj_neg.py`).
"""
