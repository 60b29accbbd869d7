"""What is recorded: Nodes and edges, AccumulateGrad, grad mode, hooks, forward-mode levels.

Dispatch records into these without knowing the engine; the engine plays them back without knowing
dispatch. What recording means to a Tensor (`requires_grad`, `grad`, `grad_fn`, hooks) is attached
to it here.
"""
