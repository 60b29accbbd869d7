"""Plays the recording back: a CPU graph inline, passes that cross devices or workers by the engine.

`inline.py` runs a local pass whose Nodes all live on the CPU in the calling thread, which is what
nearly every backward is; a hop between threads would cost as much as ten Nodes.
`inline_grad.py` does so for autograd.grad, recorded or not. `engine.py` runs any pass as a
GraphTask with ready queues, one per device thread and one for the caller, and is what distributed
autograd builds on. All give the same gradients, call the same hooks in the same order and raise the
same errors.
"""
