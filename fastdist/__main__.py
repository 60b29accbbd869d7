"""`python -m fastdist`: the same as `fastdist`, where the command is not on the path."""

from __future__ import annotations

import sys

from fastdist.cli import main

if __name__ == "__main__":
    sys.exit(main())
