"""Reports on a distributed backward pass: its graph over the workers, and where its time went.

Users call `distributed.autograd.explain(context_id)`.

explanation.py  collects the report of each worker and joins them into an `Explanation`
pieces.py       the parts of an explanation (stretches of local work, hops between workers) and the
                critical path through them
picture.py      draws an explanation as SVG and HTML
clocks.py       brings the clocks of several workers onto one time line; the profiler uses it too
"""

from __future__ import annotations

from ...core.missing import show_public
from ..rpc.message.gate import export_later

# Users call `distributed.autograd.explain`.
__all__: list[str] = []

# A worker loads these functions when another worker first asks for its report.
export_later(f"{__name__}.explanation", "_report", "_clock_here")

show_public(__name__)
