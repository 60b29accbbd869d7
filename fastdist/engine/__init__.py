"""The backward engine: it runs a recorded graph from its roots to the leaves.

`backward.py` chooses between two ways to run a pass. `inline.py` runs a local graph whose Nodes are
all on the CPU in the calling thread, which is nearly every backward: one hop between threads would
cost as much as ten Nodes. `inline_grad.py` does so for `autograd.grad`, recorded or not.
`engine.py` runs any pass as a GraphTask, with one ready queue per device thread and one for the
caller; distributed autograd builds on it. All of them give the same gradients, call the same hooks
in the same order and raise the same errors.

The terms are explained in docs/glossary.md.
"""
