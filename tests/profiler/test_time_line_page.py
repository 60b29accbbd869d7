"""Keys on the time line's page move the view, choose spans, and open the help, which lists keys.

If Node.js is installed, it runs the page's script with stand-ins for the browser's objects.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fastdist.profiler.page as page

PAGE = Path(page.__file__).with_name("time_line.html").read_text(encoding="utf-8")
SCRIPT = PAGE[PAGE.index("<script>") + len("<script>") : PAGE.index("</script>")]
# Two lanes of one worker; the second span is inside the first.
DATA = {
    "title": "three spans",
    "lanes": [["", "main"], ["", "pool"]],
    "events": [
        [0, "outer", "op", 0.0, 100.0, 0, [], -1],
        [0, "inner", "op", 10.0, 30.0, 0, [], -1],
        [1, "other", "call", 50.0, 90.0, 0, [], -1],
    ],
    "texts": [],
    "arrows": [],
}
# A stand-in for a browser, whose elements accept every call; the canvas is 800 pixels wide.
BROWSER = """
const made = {};
const element = () => new Proxy({ open: false, value: "", checked: false, style: {}, target: {} }, {
  get(own, name) {
    if (name in own) return own[name];
    if (name === "clientWidth") return 800;
    if (name === "parentElement") return own.parentElement = element();
    if (name === "getContext") return () => new Proxy({}, { get: () => () => {}, set: () => true });
    if (name === "showModal") return () => { own.open = true; };
    if (name === "close") return () => { own.open = false; };
    return () => {};
  },
});
const byName = name => made[name] = made[name] || element();
globalThis.document = { getElementById: byName, createElement: element, body: element() };
globalThis.window = globalThis;
globalThis.devicePixelRatio = 1;
globalThis.getComputedStyle = () => ({ color: "#000" });
globalThis.matchMedia = () => ({ addEventListener() {} });
"""
PRESS = """
const seen = [];
for (const [key, shiftKey] of KEYS) {
  window.onkeydown({ key, shiftKey, target: canvas, preventDefault() {} });
  seen.push([from, to, chosen, byId("keys").open]);
}
console.log(JSON.stringify(seen));
process.exit(0);
"""


def pressed(*keys: str) -> list[list[Any]]:
    """Return (start and end of the view, chosen span, whether help is open) after each key."""
    taken = json.dumps([[key.removeprefix("Shift+"), key.startswith("Shift+")] for key in keys])
    script = SCRIPT.replace("/*EVENTS*/", json.dumps(DATA))
    program = BROWSER + script + PRESS.replace("KEYS", taken)
    done = subprocess.run(
        ["node", "-"], input=program, capture_output=True, text=True, timeout=60, check=True
    )
    found: list[list[Any]] = json.loads(done.stdout)
    return found


def test_each_key_that_the_page_handles_is_in_its_help() -> None:
    handler = SCRIPT[SCRIPT.index("window.onkeydown") : SCRIPT.index('byId("search").oninput')]
    keys = set(re.findall(r'"(\w|\+|-|Arrow\w+|Escape|Tab|\?)"', handler))
    help_text = PAGE[PAGE.index("<dialog") : PAGE.index("</dialog>")]
    shown = {
        "ArrowUp": "↑",
        "ArrowDown": "↓",
        "ArrowLeft": "←",
        "ArrowRight": "→",
        "Escape": "Escape",
        "Tab": "Tab",
    }
    assert {"w", "s", "a", "d", "+", "-", "?", "Escape", "Tab", *shown} <= keys
    missing = {key for key in keys if shown.get(key, key.upper()) not in help_text}
    assert missing == set()


def test_keys_move_the_view_choose_spans_and_open_the_help() -> None:
    if shutil.which("node") is None:
        assert SCRIPT.count("/*EVENTS*/") == 1  # without Node.js, the test only reads the page
        return
    near, far, left, right = pressed("+", "-", "ArrowLeft", "ArrowRight")
    assert near[:2] == [15.0, 85.0]
    assert [round(edge, 6) for edge in far[:2]] == [0.0, 100.0]
    assert left[0] == far[0] - 12.5
    assert right[:2] == far[:2]
    chosen = [row[2] for row in pressed("Tab", "Tab", "Tab", "Tab", "Shift+Tab", "Escape")]
    assert chosen == [0, 1, 2, 2, 1, -1]
    assert [row[3] for row in pressed("?", "w")] == [True, False]
