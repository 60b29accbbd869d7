"""Differentiation, under PyTorch's names.

`backward` and `grad` run backward passes. `Function` adds an op with its own gradient. `forward_ad`
carries tangents along with the values. `functional` has Jacobians, Hessians and products with them.
`gradcheck` compares derivatives with finite differences. `profiler` has the older names of the
package `profiler`.

This package adds PyTorch's names only. The packages `graph` and `dispatch` record the graph, and
`engine` runs it backwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.missing import explain_missing, load_later
from ..graph.modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, variable
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .differentiate import backward, grad
from .function import Function
from .gradcheck import GradcheckError, gradcheck, gradgradcheck
from .variable import Variable

if TYPE_CHECKING:
    from . import profiler, profiler_util

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "profiler",
    "profiler_util",
    "set_detect_anomaly",
    "set_grad_enabled",
    "variable",
]

explain_missing(functional.__name__, forward_ad.__name__)
# These two modules load on first use: few programs use them, and they import `fastdist.profiler`.
load_later(__name__, {"profiler": "", "profiler_util": ""})
