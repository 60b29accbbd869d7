"""How a call of an op runs: checks, kernels, recording for autograd, tangents of forward mode.

An op is declared once, with `@pointwise`, `@structured` or `@view`. The declaration gives the
public function, the Tensor method, operators, the in-place twin, vjp and jvp, and the Node that
records a call. `op.py` has the base class and the table of ops. `declaration.py` has the values
that a declaration may use, and PyTorch's names of events and Nodes. `composite.py` has the table of
functions that are written with other ops, and their in-place twins. `signature.py` checks arguments
and explains wrong ones.

A call takes one of two paths:

- The general path (`call.py`) has five steps: check, offer the call to interpreters, run, record a
  Node, carry tangents. Each kind of op adds its own checks: `pointwise.py`, with `float8.py` for
  the float8 dtypes, `structured.py` and `view.py`. In-place ops are in `call.py`, too.
- The short path (`short_path.py`, see Note [The short path]) is the same five steps as generated
  source code for plain tensors. While interpreters are open or tangents exist, `call.py` casts,
  times and differentiates calls of the short path. Any other call goes to the general path.

Both paths run a Route (`route.py`, `pointwise_route.py`): how an op runs on operands of known
layouts. The general path makes the Route; the short path looks it up by these layouts. A Form
(`derive.py`) is the body of a pointwise op with its derivatives. A Target (`target.py`) is where a
result goes: a new tensor, the first operand, or `out=`.

`node_writer.py` writes the Node class of an op: which values to save, and how to compute gradients.
`tangents.py` carries tangents through a call, and decides whether a call needs derivatives.
`inplace.py` overwrites tensors. The package `graph` has the history of in-place changes, and stores
the tangents of tensors.

A tensor is *plain* (`PLAIN`) if its class is Tensor or Parameter. `modes.plain` holds these classes
while no interpreter is open and no tangent exists, and is empty otherwise. Functions with a fast
path for plain tensors check `modes.plain`. While `modes.tracers` is not 0, each call is first
offered to the interpreters of its thread: see the package `interpreters`, and Note [Calls that
others take over] in core/torch_function.py for `__torch_function__`.

`python -m fastdist.dispatch show mul` prints everything that is made from one declaration.
docs/glossary.md explains the terms.
"""
