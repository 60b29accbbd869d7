"""Draw docs/overlap.svg: one backward pass over three workers, as their profiler saw it.

Run it in the clone: .venv/bin/fastdist run -n 3 docs/draw_overlap.py [--side N] [--out FILE]
"""

from __future__ import annotations

import argparse
import os
from bisect import bisect_left
from html import escape
from pathlib import Path
from typing import NamedTuple

import fastdist as torch
import fastdist.distributed.autograd as dist_autograd
import fastdist.distributed.rpc as rpc
from fastdist.distributed import profiler
from fastdist.examples.svg import Axis, number

BATCHES, LAYERS = 4, 3
PASSES = 6
# The order in which gradients reach them.
ROWS = {0: "worker0: loss", 2: "worker2: layers 4 to 6", 1: "worker1: layers 1 to 3"}
WIDTH, LEFT, RIGHT, TOP, LANE, PAD, GAP = 860, 172, 24, 72, 17, 7, 8
STYLE = """
  .ground { fill: #ffffff } .row { fill: #f6f8fa } .ink { fill: #1f2328 } .faint { fill: #59636e }
  .b0 { fill: #59636e } .b1 { fill: #0072b2 } .b2 { fill: #00805d } .b3 { fill: #c65600 }
  .b4 { fill: #a94f8b }
  .grid { stroke: #d1d9e0 } .hop { stroke: #59636e; stroke-width: 1; fill: none; opacity: 0.75 }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
  .title { font-size: 17px; font-weight: 600 }
  .label { font-size: 11px; font-weight: 600; fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117 } .row { fill: #161b22 } .ink { fill: #e6edf3 }
    .faint { fill: #9198a1 } .grid { stroke: #30363d } .hop { stroke: #9198a1 }
    .b0 { fill: #9198a1 } .b1 { fill: #1f78c1 } .b2 { fill: #12825f } .b3 { fill: #c4571c }
    .b4 { fill: #ad5690 }
  }
"""


class Step(NamedTuple):
    """One node of the backward graph: what a worker computed from start to end, in ms."""

    worker: int
    start: float
    end: float
    batch: int  # from 1; 0 for the loss
    name: str


class Hop(NamedTuple):
    """Gradients on their way to another worker; times in ms."""

    sender: int
    sent: float
    receiver: int
    arrived: float


def layers(x: torch.Tensor, seed: int, side: int) -> torch.Tensor:
    """Return x after some layers, whose weights depend on the seed alone."""
    torch.manual_seed(seed)
    for _ in range(LAYERS):
        weight = torch.rand(side, side, requires_grad=True)
        x = torch.tanh(x @ weight / side)
    return x


def later_layers(hidden: rpc.RRef[torch.Tensor], seed: int, side: int) -> torch.Tensor:
    """Fetch the result of worker1, which later receives the gradient directly."""
    return layers(hidden.to_here(), seed, side)


def train_step(side: int) -> None:
    """Run a forward pass for each micro-batch, and one backward pass for all of them."""
    with dist_autograd.context() as context_id:
        losses = []
        for _ in range(BATCHES):
            hidden = rpc.remote("worker1", layers, args=(torch.rand(side, side), 1, side))
            output = rpc.rpc_sync("worker2", later_layers, args=(hidden, 2, side))
            losses.append(output.square().mean())
        dist_autograd.backward(context_id, losses)


def record(side: int) -> tuple[list[Step], list[Hop]]:
    """Return the steps and messages of the quickest of some profiled backward passes."""
    with profiler.profile() as profile:
        for _ in range(PASSES):
            train_step(side)
    line = profile.time_line
    passes = [event.time_range for event in line.events if event.category == "pass"]
    begin, end = min(passes, key=lambda one: one.end - one.start)

    def ms(at: float) -> float:
        return float(at - begin) / 1e3

    inside = [event for event in line.events if begin <= event.time_range.start <= end]
    nodes = [event for event in inside if event.category == "backward"]
    nodes.sort(key=lambda event: event.time_range.start)
    # The forward passes ran one after another: sequence numbers tell whose node it is.
    heads = {
        worker: sorted(
            event.sequence_nr
            for event in nodes
            if event.node_id == worker and event.name.endswith("SendRpcBackward")
        )
        for worker in ROWS
    }
    steps = [
        Step(
            event.node_id,
            ms(event.time_range.start),
            ms(event.time_range.end),
            bisect_left(heads[event.node_id], event.sequence_nr) + 1 if event.node_id else 0,
            event.name.split("::")[-1],
        )
        for event in nodes
    ]
    hops = [
        Hop(arrow.sender.node_id, ms(arrow.sent_us), arrow.receiver.node_id, ms(arrow.came_us))
        for arrow in line.arrows
        if arrow.receiver.category == "came" and begin <= arrow.came_us <= end
    ]
    return steps, hops


def draw(steps: list[Step], hops: list[Hop]) -> str:
    """Return the pass as SVG text: a row for each worker, a lane for each micro-batch in it."""
    took, work = max(step.end for step in steps), sum(step.end - step.start for step in steps)
    tops, foot = {}, TOP
    for worker in ROWS:
        tops[worker] = foot
        foot += LANE * (BATCHES if worker else 1) + 2 * PAD + GAP
    across = Axis(0.0, took, LEFT, WIDTH - RIGHT)
    title = "One backward pass over three workers, four micro-batches"
    subtitle = (
        f"Its steps add up to {work:.0f} ms and end after {took:.0f} ms: worker1 works on one "
        "batch while worker2 computes the next."
    )
    shapes = [
        f'<rect width="{WIDTH}" height="{foot + 26}" rx="6" class="ground"/>',
        text(16, 28, title, "ink title"),
        text(16, 50, subtitle, "faint"),
    ]
    for worker, top in tops.items():
        height = LANE * (BATCHES if worker else 1) + 2 * PAD
        shapes.append(rectangle(8, top, WIDTH - 16, height, "row"))
        shapes.append(text(20, top + height / 2 + 5, ROWS[worker], "ink"))
    for tick in across.ticks(8):
        x = across.place(tick)
        shapes.append(f'<path d="M{x:.1f} {TOP - 6}V{foot - 2}" class="grid"/>')
        shapes.append(text(x, foot + 13, f"{number(tick)} ms", "faint", "middle"))
    for step in steps:
        left = across.place(step.start)
        width = max(across.place(step.end) - left, 0.6)
        tip = f"{step.name}, {step.end - step.start:.2f} ms"
        top = tops[step.worker] + PAD + lane(step.batch)
        shapes.append(rectangle(left, top, width, LANE - 3, f"b{step.batch}", tip))
    shapes += [arrow(hop, steps, across, tops) for hop in hops]
    shapes += labels(steps, across, tops)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{foot + 26}" '
        f'viewBox="0 0 {WIDTH} {foot + 26}" role="img" aria-label="{title}: {subtitle}">\n'
        f"<style>{STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0L8 4L0 8z" class="faint"/></marker></defs>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def lane(batch: int) -> int:
    """Return how far below its row's first lane a batch lies; the last one is first backward."""
    return LANE * (BATCHES - batch) if batch else 0


def labels(steps: list[Step], across: Axis, tops: dict[int, int]) -> list[str]:
    """Return the name of each batch, on its bars."""
    starts: dict[tuple[int, int], float] = {}
    for step in steps:
        starts.setdefault((step.worker, step.batch), step.start)
    return [
        text(
            across.place(start) + 10,
            tops[worker] + PAD + lane(batch) + 10.5,
            f"batch {batch}",
            "label",
        )
        for (worker, batch), start in starts.items()
        if batch
    ]


def arrow(hop: Hop, steps: list[Step], across: Axis, tops: dict[int, int]) -> str:
    """Return a curve from the sender, when gradients left, to the receiver, when they arrived."""
    batch = min(
        (step for step in steps if step.worker == hop.receiver and step.end >= hop.arrived),
        key=lambda step: (step.name != "SendRpcBackward", step.start),
    ).batch
    x1, x2 = across.place(hop.sent), across.place(hop.arrived)
    y1 = tops[hop.sender] + PAD + lane(batch if hop.sender else 0) + LANE - 3
    y2 = tops[hop.receiver] + PAD + lane(batch) - 1
    tip = f"gradients sent after {hop.sent:.2f} ms, received after {hop.arrived:.2f} ms"
    return (
        f'<path d="M{x1:.1f} {y1}C{x1:.1f} {y1 + 14},{x2:.1f} {y2 - 18},{x2:.1f} {y2}" '
        f'class="hop" marker-end="url(#tip)"><title>{tip}</title></path>'
    )


def rectangle(x: float, y: float, width: float, height: float, look: str, tip: str = "") -> str:
    """Return a rectangle whose corners are a little round."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}"'
    inside = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<rect {place} rx="2" class="{look}">{inside}</rect>'


def text(x: float, y: float, words: str, look: str, anchor: str = "start") -> str:
    """Return words; y is their base line."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} class="{look}">{escape(words)}</text>'


def main() -> None:
    """Take part as the worker that the environment says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=512, help="rows and columns of each layer")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("overlap.svg"))
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=len(ROWS))
    if rank == 0:
        train_step(options.side)  # compiles what the others only run
        options.out.write_text(draw(*record(options.side)), encoding="utf-8")
    rpc.shutdown()


if __name__ == "__main__":
    main()
