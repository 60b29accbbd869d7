"""A picture of small grey images in rows, as SVG text."""

from __future__ import annotations

from collections.abc import Mapping

from fastdist import Tensor
from fastdist.examples.svg import Canvas

_SIDE, _GAP, _LEFT, _TOP = 5, 8, 16, 48
_GREYS = 16


def image_grid(rows: Mapping[str, Tensor], *, title: str) -> str:
    """Draw named rows of images, each (n, height, width) numbers from 0 to 1.

    Note    numbers outside of 0 to 1 are clamped
    """
    places: dict[int, list[tuple[float, float]]] = {}
    top, right = _TOP, 0
    names: list[tuple[float, str]] = []
    for name, images in rows.items():
        if name:
            names.append((top + 12, name))
            top += 20
        n, height, width = images.shape
        grey = (images.detach().clamp(0, 1) * (_GREYS - 1)).round().int().tolist()
        for i in range(n):
            left = _LEFT + i * (width * _SIDE + _GAP)
            for down, line in enumerate(grey[i]):
                for across, value in enumerate(line):
                    corner = (left + across * _SIDE, top + down * _SIDE)
                    places.setdefault(value, []).append(corner)
        right = max(right, left + width * _SIDE)
        top += height * _SIDE + _GAP
    canvas = Canvas(right + _LEFT, top + _GAP, title)
    for y, name in names:
        canvas.write(_LEFT, y, name, style="ink")
    for value, corners in sorted(places.items()):
        level = round(255 * (1 - value / (_GREYS - 1)))
        canvas.squares(corners, _SIDE, f"#{level:02x}{level:02x}{level:02x}")
    return canvas.text()
