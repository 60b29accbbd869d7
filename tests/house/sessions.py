"""Interactive sessions on pages: `python -m tests.house.sessions PAGE ...` runs them.

All lines of an error are compared, but not the module of its class. `...` matches output that
differs from run to run. CuPy is hidden, because a reader may have no GPU.
"""

from __future__ import annotations

import doctest
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

_ERROR = re.compile(r"(?:\w+\.)*([A-Z]\w+): (.*)", re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def is_as_shown(shown: str, printed: str) -> bool:
    """Return whether a printed line matches a line of a page, where `...` matches any text.

    Numbers in a line with a time may differ.
    """
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    if " ms" in shown:
        pattern = re.sub(r"[0-9]+(\\.[0-9]+)?", "[0-9.]+", pattern)
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


class _Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(_on_one_line(want), _on_one_line(got), optionflags)


def _on_one_line(text: str) -> str:
    error = _ERROR.fullmatch(text)
    return f"{error[1]}: {' '.join(error[2].split())}\n" if error else text


def differences(page: Path) -> str:
    """Run the sessions of a page in one namespace, in order, and return the differences."""
    printed: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(
        "\n".join(blocks(page, "pycon")), names, page.name, str(page), 0
    )
    runner = doctest.DocTestRunner(_Checker(), verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=printed.append)
    return "".join(printed)


if __name__ == "__main__":
    sys.modules["cupy"] = None  # type: ignore[assignment]
    tempfile.tempdir = str(Path.cwd())  # the caller removes what sessions leave here
    sys.stdout.write("".join(differences(Path(argument)) for argument in sys.argv[1:]))
