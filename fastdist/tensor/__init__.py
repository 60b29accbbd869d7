"""The value: Tensor, its interned Layout, the Storage that views share, Parameter, printing.

A Tensor has five slots and no `__init__` (see PERFORMANCE of the eager path in bench/ops.py). It
knows no op and no graph: `methods.TensorMethods` is where the rooms above attach theirs.
"""
