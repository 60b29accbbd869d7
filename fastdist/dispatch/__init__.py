"""How a call of an op runs: checks, kernels, recording for autograd, tangents of forward mode.

An op is declared once, with `@pointwise`, `@structured` or `@view`. The declaration gives the
public function, the Tensor method, operators, the in-place twin, vjp and jvp, and the Node that
records a call. `op.py` has the base class and the table of ops, `declaration.py` the words that a
declaration may use, `composite.py` the table of functions written with other ops.

A call takes one of two paths:

- The general path (`general_path.py`) has five steps: check, offer the call to interpreters, run,
  record a Node, carry tangents. Each kind of op adds its own checks: `pointwise.py`,
  `structured.py`, `view.py`, `pointwise_inplace.py`.
- The short path (`short_path.py`, see Note [The short path]) is the same five steps, written out as
  source for plain tensors that need no further look. While interpreters are open or tangents
  exist, `interpreted.py` casts, times and differentiates such calls. Anything unusual goes to the
  general path.

Both run a Route (`route.py`, `pointwise_route.py`): how an op runs on operands of known layouts.
The general path makes it; the short path looks it up by the layouts of its operands.

`node_writer.py` writes the Node class of an op: what to save, and how a gradient passes.
`derive.py` makes derivatives from partials, `tangents.py` those of forward mode;
`needs_derivative.py` says whether a result needs them. `piecewise.py` serves second derivatives. In-place ops use `inplace.py`: `copy_inplace.py` computes
and overwrites where an op lacks such a kernel, `view_inplace.py` changes how a tensor is seen.
`output.py` writes into `out=`. `arguments.py` and `argument_kinds.py` explain wrong arguments.
`pytorch_names.py` has PyTorch's names of events and Nodes.

A tensor is *plain* (`PLAIN`) if its class is Tensor or Parameter. While `modes.tracers` is not 0
the interpreters of a call's thread are asked first: see the package `interpreters`, and
Note [Calls that others take over] in core/torch_function.py for `__torch_function__`.

`python -m fastdist.dispatch show mul` prints all that is made from one declaration. The terms are
explained in docs/glossary.md.
"""
