"""What happens when an op is called.

An op is declared once (`pointwise`, `structured`, `view`), and everything is read off the
declaration: the public function, the Tensor method, the fast closure, the in-place twin, vjp and
jvp, the Node that records it. The general path reads as five steps: check, offer to the tracer,
run, record a Node, carry tangents. The closures of `fast.py` are the same five steps for the case
that is common and small, written out in one function each because every call costs.
"""
