"""What happens when an op is called.

An op is declared once (`pointwise`, `structured`, `view`), and everything is read off the
declaration: the public function, the Tensor method, operators, the in-place twin, vjp and jvp, the
Node that records it. What a declaration says stands in `pointwise_form.py` and
`structured_form.py`, where nothing runs. `general_path.py` runs it, in five steps: check, offer to
who listens, run, record a Node, carry tangents; how a kind of op checks a call and what it makes of
it say `pointwise.py`, `structured.py`, `view.py` and `pointwise_inplace.py`. Where users find an
op, and what errors call it, its `homes` say (`op.py`).

Every call costs, so the five steps are also written out for operands of which nothing needs a look:
see Note [The short path] in `short_path.py`, which writes it for all kinds of ops, views among
them, for what is written into their first operand and for `out=` (`output.py`). Both paths run a
`Route` (`route.py`, `pointwise_route.py`): the general one finds or makes it, the short one finds
it by its operands' layouts, and goes over to the general path for all else. What a Node saves, and
how a gradient passes it, `node_writer.py` writes, of one result or of several, as an op's
`gradients` say it to both paths. Whether there is anything to record, `needs_derivative.py` tells.
What PyTorch calls it, in profiles and graphs, a declaration says too (`pytorch_names.py`).

Second derivatives through norms that are 0 come from `quotients.py` and `slopes_at_zero.py`.

What changes a tensor in place asks and records what `inplace.py` tells; without a kernel of its own
it computes and overwrites (`copy_inplace.py`), or changes how it is seen (`view_inplace.py`).
Functions that are made of ops stand in a table of their own (`composite.py`).

Words, one meaning each: a *path* is how a call runs, short or general; a *Route* is how an op runs
on operands of known layouts; a tensor is *plain* (`PLAIN`) if its class is Tensor or Parameter; a
layout is *ordinary* where NumPy needs no further look; kernels for few numbers are *small*.

Who else wants a call gets it on the general path, to which the short one sends all that is not
plain (see Note [Calls that others take over] in core/torch_function.py) and, while `modes.tracers`
is not zero, everything. An argument's `__torch_function__` is asked first, then, in place as well,
those who listen; composites are offered by `arguments.py`. Who they are, the room `interpreters`
tells.
"""
