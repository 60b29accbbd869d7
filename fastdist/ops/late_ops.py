"""Ops of packages in higher layers, looked up by name when they are first used.

The packages of ops import only packages of lower layers (`tests/house/test_layers.py` has the
order). A function that needs an op of a higher layer imports this module and calls
`late_ops.where(...)`; `late_ops.pyi` has the types.
"""

from __future__ import annotations

from ..dispatch.op import OPS, Op


def __getattr__(name: str) -> Op:
    found = globals()[name] = OPS.get(name)
    if found is None:
        del globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: no op has this name")
    return found
