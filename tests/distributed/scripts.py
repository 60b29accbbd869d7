"""Scripts that a template process forks, so that their modules are imported once in a test run."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # The folder of this file must not hide modules of the standard library or the project.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tests.distributed import templates

_PRELOADED = ("fastdist.distributed.store", "fastdist.distributed.rpc.process_end")


class Script:
    """A process that runs Python source like `python -c TEXT ARGUMENTS`, with pipes for streams."""

    def __init__(self, text: str, *arguments: str) -> None:
        input_end, stdin = os.pipe()
        stdout, output_end = os.pipe()
        words = ([text, *arguments], {**os.environ}, os.getcwd())
        with open(os.devnull, "rb") as nothing:
            streams = (input_end, output_end, 2)
            self.process = templates.fork("script", __file__, words, nothing.fileno(), streams)
        os.close(input_end)
        os.close(output_end)
        self.stdin, self.stdout = open(stdin, "w"), open(stdout)  # noqa: SIM115

    def end(self, timeout_s: float = 10.0) -> int:
        """Close the process's stdin, wait for the process, and return the exit code."""
        self.stdin.close()
        try:
            return self.process.wait(timeout_s)
        finally:
            self.stdout.close()

    def kill(self) -> int:
        """Kill the process, and return the exit code."""
        self.process.kill()
        return self.end()


if __name__ == "__main__":
    os.close(templates.serve(int(sys.argv[1]), _PRELOADED))
    exec(compile(sys.argv.pop(1), "<script>", "exec"), {"__name__": "__main__"})
