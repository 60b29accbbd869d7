"""The reaction to a host that waits for a GPU: none, a warning, or an error."""

from __future__ import annotations

from typing import Final

from fastdist.core.caller_warning import warn_caller

MODES: Final = ("default", "warn", "error")


class SyncDebugMode:
    """`about_to_wait` says what the mode, of MODES' numbers, wants."""

    number = 0

    def about_to_wait(self) -> None:
        """Warn, or raise RuntimeError, unless the mode is 0."""
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
