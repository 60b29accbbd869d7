"""The channel that always works: a tensor's bytes are frames of its message."""

from __future__ import annotations

from fastdist.distributed.pipe.registry import BASIC_CHANNEL_PRIORITY, channels


class BasicChannel:
    """Bytes in the message itself, as pipe/message.py lays them out."""

    def why_not_viable(self) -> str | None:
        """Return None: where a message arrives, its frames do."""
        return None


channels.register("basic", BASIC_CHANNEL_PRIORITY, BasicChannel())
