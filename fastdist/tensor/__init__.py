"""The value: Tensor, its interned Layout, the Storage that views share, Parameter, printing.

A Tensor has few slots and no `__init__`, for each call of an op makes one (`python -m bench ops`
says what a call costs). It knows no op and no graph: `methods.TensorMethods` is where the rooms
above attach theirs. What follows from tensors' facts alone is told here as well: in which dtype
they meet (`promotion.py`), and in which shape (`broadcast.py`), which axes a `dim` names
(`axes.py`), as which tensor a number of Python's joins them (`constants.py`), and whether their
memory may be written while others are read (`writable.py`).
"""
