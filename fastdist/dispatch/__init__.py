"""What happens when an op is called.

An op is declared once (`pointwise`, `structured`, `view`), and everything is read off the
declaration: the public function, the Tensor method, the fast closure, the in-place twin, vjp and
jvp, the Node that records it. The general path reads as five steps: check, offer to the tracer,
run, record a Node, carry tangents.

The short ways are the same five steps where nothing needs a look, written out because every call
costs: closures for the commonest pointwise ops (`fast.py`), for matmul and the sum of all
(`fast_structured.py`); generated text for other pointwise ops (`fast_nary.py`), structured ops
(`quick.py`), views (`quick_view.py`) and what is changed in place (`fast_inplace.py`). They find
what the general path has worked out before, a `Way`, in the plans of the first operand's layout,
and go back to the general path for all else.
"""
