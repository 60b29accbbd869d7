"""Tensor and what it is made of: the interned Layout, the Storage that views share, Parameter.

A Tensor has few slots and no `__init__`, because every call of an op creates one
(`python -m bench ops` prints what a call costs). This package imports neither ops nor the graph:
the packages above it attach their methods to `methods.TensorMethods`.

Rules that need only layouts are here too: the dtype of a result (`promotion.py`), its shape
(`broadcast.py`), the axes that a `dim` names (`axes.py`), the constant tensors that represent
Python numbers (`constants.py`), and whether memory may be written while it is read (`writable.py`).
`sparse.py` represents sparse tensors, `pytree.py` flattens nested containers, `pickling.py` copies
and pickles.

The terms are explained in docs/glossary.md.
"""
