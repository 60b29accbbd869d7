"""Messages: their content and bytes, and how values and tensors are packed and opened.

There is one type, `Message` (message.py). A sender fills in a message, calls the interceptors,
which may add data, and encodes the message. A receiver decodes the frames, which reads everything
except the tensors. It then opens the message, and the interceptors remove the added data.

    message = Message(kind, message_id, peer=..., tensors=[x], body=body, encoding=encoding)
    frames = message.encode(lender, device_map, limits=...)     # pipe/ carries them
    message = decode(frames, limits, peer)
    message.open()                                              # makes the tensors
    message.value()                                             # reads the body, once

A message that is never opened, such as an answer that arrives too late, creates no tensors, and
releases the memory that was lent for it. Only `encode` writes the header, and only `decode` reads
it. Nearly every message is a body alone, or a body and one small tensor (`lone_table`). `encode`
and `decode` have a fast path for such messages, which gives the same bytes.

layout.py           the header and tables of a message
tables.py           packs and reads the tables
types.py            the types of messages, by number
metadata.py         encodes the named numbers and texts; metadata_fields.py reads them with checks
body.py             encodes values and calls as a message's body
numpy_values.py     the encoding of NumPy's values; error_parts.py: the encoding of exceptions
remote_errors.py    sends an exception to another worker
tensors.py          encodes tensors as a table and buffers
places.py           assigns arrays to buffers. ../gpu_transport/ sends tensors from GPU to GPU
gate.py             decides what may be loaded
pickle_scan.py      checks a pickle before it is loaded, in strict mode; pickle_uses.py has the
                    permitted uses of each name in it
limits.py           the limits for messages that a worker sends and accepts
ids.py              ids of all kinds, as text
"""

from __future__ import annotations
