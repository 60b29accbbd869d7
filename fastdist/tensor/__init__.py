"""The value: Tensor, its interned Layout, the Storage that views share, Parameter, printing.

A Tensor has few slots and no `__init__`, because every call of an op makes one
(`python -m bench ops` prints what a call costs). It imports neither ops nor the graph: the packages
above attach their methods to `methods.TensorMethods`.

Rules that need only layouts are here too: the dtype of a result (`promotion.py`), its shape
(`broadcast.py`), the axes that a `dim` names (`axes.py`), the constant tensors that represent
Python numbers (`constants.py`), and whether memory may be written while it is read (`writable.py`).
`sparse.py` is the representation of sparse tensors, `pytree.py` walks nested containers,
`pickling.py` copies and pickles.

The terms are explained in docs/glossary.md.
"""
