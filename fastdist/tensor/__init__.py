"""Tensor and what it is made of: the interned Layout, the Storage that views share, Parameter.

A Tensor has few slots and no `__init__`, because every call of an op creates one
(`python -m bench ops` prints the time of a call). This package imports neither ops nor the graph.
The packages in higher layers attach their methods to `methods.TensorMethods`.

The package also has rules that need only layouts: the dtype of a result (`promotion.py`), the shape
of a result (`broadcast.py`), the axes that a `dim` names (`axes.py`), the constant tensors that
represent Python numbers (`constants.py`), and whether an op may write to memory (`writable.py`).
`sparse.py` represents sparse tensors, `pytree.py` flattens nested containers, and `pickling.py`
copies and pickles tensors.

The terms are explained in docs/glossary.md.
"""
