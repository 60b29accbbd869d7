"""The backward engine: it runs a recorded graph from its roots to the leaves.

Nearly all passes are local, and all their Nodes are on the CPU. `inline.py` runs such a pass in the
calling thread: a switch between threads would cost as much as ten Nodes. `inline_grad.py` does the
same for autograd.grad, with create_graph or without. `engine.py` runs any pass as a GraphTask with
ready queues: one per device thread and one for the caller. Distributed autograd uses `engine.py`.
All three give the same gradients, call the same hooks in the same order and raise the same errors.

The terms are explained in docs/glossary.md.
"""
