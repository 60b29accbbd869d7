"""Line search for a step that satisfies the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..tensor.tensor import Tensor

At = Callable[[Any], tuple[float, Tensor]]
ENOUGH_DESCENT, ENOUGH_FLATTER = 1e-4, 0.9
LEAST_WIDTH = 1e-9


class Point(NamedTuple):
    """A point on the line: its distance t from the start, and the loss, gradient and slope there.

    Note    `slope`, the derivative along the line, is a Tensor of one element. `t` is one too if it
            was computed from slopes. So comparisons round in the dtype of the parameters
    """

    t: Any
    loss: float
    gradient: Tensor
    slope: Any


def strong_wolfe(
    at: At, t: Any, d: Tensor, loss: float, gradient: Tensor, slope: Tensor, *, most: int
) -> tuple[float, Tensor, Any, int]:
    """Return the loss, gradient and distance of the result, and the number of calls of `at`.

    Source  Nocedal and Wright 2006, "Numerical Optimization", algorithms 3.5 and 3.6, with the
            bounds of the distance from Mark Schmidt's minFunc
    """
    start = Point(0, loss, gradient.clone(), slope)

    def point(t: Any) -> Point:
        loss, gradient = at(t)
        return Point(t, loss, gradient, gradient.dot(d))

    bracket, count = _bracket(point, start, t, most)
    if len(bracket) == 2:
        found, count = _zoom(point, start, bracket, count, most, d.abs().max())
    else:
        found = bracket[0]
    return found.loss, found.gradient, found.t, count


def _bracket(
    point: Callable[[Any], Point], start: Point, t: Any, most: int
) -> tuple[list[Point], int]:
    """Return two points that enclose an acceptable point, or a single acceptable point.

    Also return the number of points evaluated.
    """
    before, here, count = start, point(t), 1
    while count <= most:
        if _is_too_high(here, start) or (count > 2 and here.loss >= before.loss):
            return [before, here], count
        if _is_flat_enough(here, start):
            return [here], count
        if here.slope >= 0:
            return [before, here], count
        bounds = (here.t + 0.01 * (here.t - before.t), here.t * 10)
        before, here = here, point(_lowest_of_cubic(before, here, bounds))
        count += 1
    return [start, here], count


def _zoom(
    point: Callable[[Any], Point],
    start: Point,
    bracket: list[Point],
    count: int,
    most: int,
    longest: Tensor,
) -> tuple[Point, int]:
    """Return an acceptable point, or the end with the lower loss of the last bracket.

    Also return the number of points evaluated.
    """
    low, high = _lower_first(bracket)
    is_stuck = False
    while count <= most:
        near, far = sorted(end.t for end in bracket)
        if (far - near) * longest < LEAST_WIDTH:
            break
        t = _lowest_of_cubic(bracket[0], bracket[1], (near, far))
        t, is_stuck = _off_the_ends(t, near, far, is_stuck=is_stuck)
        here = point(t)
        count += 1
        if _is_too_high(here, start) or here.loss >= bracket[low].loss:
            bracket[high] = here
            low, high = _lower_first(bracket)
            continue
        is_done = _is_flat_enough(here, start)
        if not is_done and here.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = here
        if is_done:
            break
    return bracket[low], count


def _is_too_high(here: Point, start: Point) -> bool:
    return bool(here.loss > start.loss + ENOUGH_DESCENT * here.t * start.slope)


def _is_flat_enough(here: Point, start: Point) -> bool:
    return bool(abs(here.slope) <= -ENOUGH_FLATTER * start.slope)


def _lower_first(bracket: list[Point]) -> tuple[int, int]:
    return (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)


def _off_the_ends(t: Any, near: Any, far: Any, *, is_stuck: bool) -> tuple[Any, bool]:
    """Move a guess t near an end of the bracket inwards, if the last guess was near an end too.

    Return the guess, and whether it stays near an end.
    """
    margin = 0.1 * (far - near)
    if not min(far - t, t - near) < margin:
        return t, False
    if not (is_stuck or t >= far or t <= near):
        return t, True
    return (far - margin if abs(t - far) < abs(t - near) else near + margin), False


def _lowest_of_cubic(one: Point, other: Point, bounds: tuple[Any, Any]) -> Any:
    """Return the minimizer, within bounds, of the cubic with the losses and slopes of two points.

    If the cubic has no minimum, return the middle of the bounds.
    """
    near, far = (one, other) if one.t <= other.t else (other, one)
    least, most = bounds
    bend = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.t - other.t)
    square = bend**2 - one.slope * other.slope
    if not square >= 0:
        return (least + most) / 2.0
    root = square.sqrt()
    share = (far.slope + root - bend) / (far.slope - near.slope + 2 * root)
    return min(max(far.t - (far.t - near.t) * share, least), most)
