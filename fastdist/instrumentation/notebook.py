"""HTML for notebooks, which `_repr_html_` of traces, profiles, explanations and reports returns.

A table uses the notebook's style. Pictures and pages have their own styles, which must not
affect the rest of the notebook. So a picture is the source of an `img` element, and a page is the
source of an `iframe` element. Nothing is loaded from a network.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence


def escaped(text: str) -> str:
    """Escape the characters of a text that HTML interprets, also inside quoted attributes."""
    # Imported when first used, because `html` loads a table of 2,231 named characters.
    from html import escape

    return escape(text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], below: str = "") -> str:
    """Return an HTML table of texts, with the line of text `below` under it.

    Example:
        >>> "<td>a &lt; b</td>" in table(["name"], [["a < b"]])
        True
    """
    head = "".join(f"<th>{escaped(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    more = f"<p>{escaped(below)}</p>" if below else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def picture(svg: str, text: str = "") -> str:
    """Return an image from SVG text, and an element in which the reader can unfold `text`."""
    source = base64.b64encode(svg.encode()).decode()
    more = f"<details><summary>text</summary><pre>{escaped(text)}</pre></details>" if text else ""
    return f'<img alt="" src="data:image/svg+xml;base64,{source}">{more}'


def page(html: str, height: int = 520) -> str:
    """Return an `iframe` of a height in pixels. Scripts inside it cannot access the notebook."""
    return (
        f'<iframe sandbox="allow-scripts" style="width: 100%; height: {height}px; border: 0" '
        f'srcdoc="{escaped(html)}"></iframe>'
    )
