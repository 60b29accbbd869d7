"""The records of a zip archive in PyTorch's layout: uncompressed, aligned, with checksums.

Numbers are little-endian; the names of the fields are those of PKWARE's APPNOTE.
"""

from __future__ import annotations

import struct
from typing import Final

# The alignment of data, so that a memory-mapped file holds aligned arrays.
ALIGNMENT: Final = 64

LOCAL: Final = struct.Struct("<4s5H3I2H")
CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
END: Final = struct.Struct("<4s4H2IH")
END64: Final = struct.Struct("<4sQ2H2I4Q")
END64_LOCATOR: Final = struct.Struct("<4sIQI")

LOCAL_MAGIC: Final = b"PK\x03\x04"
CENTRAL_MAGIC: Final = b"PK\x01\x02"
DESCRIPTOR_MAGIC: Final = b"PK\x07\x08"
END_MAGIC: Final = b"PK\x05\x06"
END64_MAGIC: Final = b"PK\x06\x06"
END64_LOCATOR_MAGIC: Final = b"PK\x06\x07"

# Bit 3: size and checksum follow the data; bit 11: names are UTF-8.
FLAGS: Final = 0x0808
ENCRYPTED: Final = 0x0001
ZIP64_TAG: Final = 0x0001
FILLER_TAG: Final = b"FB"
FILLER: Final = b"Z"
# If a field of 16 or 32 bits has one of these values, its real value is in a field of zip64.
MANY: Final = 0xFFFF
LARGE: Final = 0xFFFFFFFF
