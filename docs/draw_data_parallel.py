"""Draw docs/data-parallel.svg: one backward pass of data-parallel training, as its profiler saw it.

Run it in the clone: .venv/bin/fastdist run -n 2 docs/draw_data_parallel.py [--side N] [--out FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from draw_overlap import LANE, LEFT, PAD, RIGHT, STYLE, TOP, WIDTH, rectangle, text

import fastdist as torch
from fastdist import distributed as dist
from fastdist import nn
from fastdist.examples.svg import Axis, number
from fastdist.profiler import profile

LAYERS, PASSES = 6, 8
ROWS = ("backward", "all_reduce")


class Span(NamedTuple):
    """A part of one rank's pass, from start to end, in ms since the pass began."""

    rank: int
    row: str
    start: float
    end: float
    name: str


def record(side: int) -> list[Span]:
    """Return this rank's spans in the quickest of some backward passes."""
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(side, side), nn.ReLU())]
    # Each layer's gradient is one bucket.
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(*layers), bucket_cap_mb=4 * side * side / 2**20
    )
    batch = torch.randn(side, side)
    found = []
    for _ in range(PASSES):
        model.zero_grad()
        loss = model(batch).square().mean()
        dist.barrier()
        with profile() as profiled:
            loss.backward()
        found.append(_spans(profiled.events()))
    return min(found[2:], key=lambda spans: max(span.end for span in spans))


def _spans(events: list[object]) -> list[Span]:
    begin = min(event.time_range.start for event in events)  # type: ignore[attr-defined]
    spans = []
    for event in events:
        name: str = event.name  # type: ignore[attr-defined]
        row = "all_reduce" if name.endswith(":all_reduce") else "backward"
        if row == "backward" and "Backward" not in name and "AccumulateGrad" not in name:
            continue  # the ops inside of a Node
        start, end = event.time_range.start, event.time_range.end  # type: ignore[attr-defined]
        short = name.rpartition(":")[2]
        spans.append(Span(dist.get_rank(), row, (start - begin) / 1e3, (end - begin) / 1e3, short))
    return spans


def draw(spans: list[Span]) -> str:
    """Return the pass as SVG text: for each rank a lane of Nodes and a lane of sums."""
    ranks = sorted({span.rank for span in spans})
    height = LANE * len(ROWS) + 2 * PAD
    tops = {rank: TOP + place * (height + PAD) for place, rank in enumerate(ranks)}
    foot = TOP + len(ranks) * (height + PAD)
    took = max(span.end for span in spans)
    computed = max(span.end for span in spans if span.row == "backward" and span.rank == 0)
    sums = sum(span.end - span.start for span in spans if span.row != "backward" and not span.rank)
    title = "One backward pass of two ranks"
    subtitle = (
        f"Rank 0 computes gradients until {computed:.1f} ms. Its sums take {sums:.1f} ms; "
        f"{max(took - computed, 0):.1f} ms of them remain after that."
    )
    across = Axis(0.0, took, LEFT, WIDTH - RIGHT)
    shapes = [
        f'<rect width="{WIDTH}" height="{foot + 26}" rx="6" class="ground"/>',
        text(16, 28, title, "ink title"),
        text(16, 50, subtitle, "faint"),
    ]
    for rank, top in tops.items():
        shapes.append(rectangle(8, top, WIDTH - 16, height, "row"))
        for place, row in enumerate(ROWS):
            shapes.append(text(20, top + PAD + LANE * place + 12, f"rank {rank}: {row}", "ink"))
    for tick in across.ticks(8):
        x = across.place(tick)
        shapes.append(f'<path d="M{x:.1f} {TOP - 6}V{foot - 2}" class="grid"/>')
        shapes.append(text(x, foot + 13, f"{number(tick)} ms", "faint", "middle"))
    for span in spans:
        left = across.place(span.start)
        width = max(across.place(span.end) - left - 0.5, 0.6)
        place = ROWS.index(span.row)
        top = tops[span.rank] + PAD + LANE * place
        tip = f"{span.name}, {span.end - span.start:.2f} ms"
        look = "b3" if place else "b0" if span.name == "AccumulateGrad" else "b1"
        shapes.append(rectangle(left, top, width, LANE - 3, look, tip))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{foot + 26}" '
        f'viewBox="0 0 {WIDTH} {foot + 26}" role="img" aria-label="{title}: {subtitle}">\n'
        f"<style>{STYLE}</style>\n" + "\n".join(shapes) + "\n</svg>\n"
    )


def main() -> None:
    """Take part as the rank that the environment says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=1024, help="rows and columns of each layer")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("data-parallel.svg"))
    options = parser.parse_args()
    dist.init_process_group()
    torch.set_num_threads(1)
    all_spans: list[list[Span]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(all_spans, [tuple(span) for span in record(options.side)])
    if dist.get_rank() == 0:
        spans = [Span(*span) for part in all_spans for span in part]
        options.out.write_text(draw(spans), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
