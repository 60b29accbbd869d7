"""Reports on a distributed backward pass: its graph over the workers, and the time of each part.

Users call `distributed.autograd.explain(context_id)`.

explanation.py  collects the report of each worker and joins them into an `Explanation`
pieces.py       the pieces of an explanation (stretches of local work, and hops between workers),
                and the critical path through them
picture.py      draws an explanation as SVG and HTML
clocks.py       converts the times of several workers' clocks to one clock; the profiler uses it too
"""

from __future__ import annotations

from ...core.missing import show_public
from ..rpc.message.gate import export_later

# Nothing is public here: users call `distributed.autograd.explain`.
__all__: list[str] = []

# A worker imports these functions when another worker first requests a report from it.
export_later(f"{__name__}.explanation", "_report", "_clock_here")

show_public(__name__)
