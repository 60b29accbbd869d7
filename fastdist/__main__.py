"""`python -m fastdist`: the command `fastdist`, for environments where it is not on the PATH."""

from __future__ import annotations

import sys

from fastdist.cli import main

if __name__ == "__main__":
    sys.exit(main())
