"""`python -m fastdist.run`: the same as `fastdist run`."""

from __future__ import annotations

import sys

from fastdist.launch.main import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m fastdist.run"))
