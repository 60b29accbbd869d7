"""What is recorded: Nodes and their edges, AccumulateGrad, grad mode, hooks, views, forward-mode levels.

Dispatch records into these without knowing the engine; the engine plays them back without knowing dispatch.
"""
