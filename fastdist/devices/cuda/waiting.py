"""The debug mode for calls that wait for a GPU: no reaction, a warning, or an error."""

from __future__ import annotations

from typing import Final

from fastdist.core.caller_warning import warn_caller

MODES: Final = ("default", "warn", "error")


class SyncDebugMode:
    """The current debug mode; `number` is an index of MODES."""

    number = 0

    def about_to_wait(self) -> None:
        """Warn in mode "warn", and raise RuntimeError in mode "error"."""
        if not self.number:
            return
        text = (
            "called a synchronizing CUDA operation: the program waits here until the GPU reaches "
            "this point; keep the value on the GPU, or copy to the CPU with non_blocking=True"
        )
        if self.number > 1:
            raise RuntimeError(text)
        warn_caller(text)


sync_debug_mode: Final = SyncDebugMode()
