"""Makes the description of the distribution from README.md; pyproject.toml has everything else.

README.md links to files of the repository. On a package index such links lead nowhere, so the
description has the names of the files instead, and says where they are.
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

# A link or a picture of Markdown whose target is a file.
_LINK = re.compile(r"!?\[([^]]+)\]\((?!\w+:|#)([^)]+)\)")
_NOTE = """
The source distribution has the files that this page names:
`pip download --no-deps --no-binary :all: spangrad` gets it.
"""


def _name(link: re.Match[str]) -> str:
    text, path = link.groups()
    return f"`{path}`" if path.endswith(text) else f"{text} (`{path}`)"


_readme = Path(__file__).with_name("README.md").read_text("utf-8")
setup(
    long_description=_LINK.sub(_name, _readme) + _NOTE,
    long_description_content_type="text/markdown",
)
