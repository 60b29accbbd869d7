"""Messages: what one holds, its bytes, and how values and tensors are packed and opened.

There is one type, `Message` (message.py). A sender fills it in, lets the interceptors add to it,
and encodes it. A receiver decodes the frames, which reads everything except the tensors, then opens
the message; the interceptors remove what they added.

    message = Message(kind, message_id, peer=..., tensors=[x], body=body, encoding=encoding)
    frames = message.encode(lender, device_map, limits=...)     # pipe/ carries them
    message = decode(frames, limits, peer)
    message.open()                                              # makes the tensors
    message.value()                                             # reads the body, once

A message that is never opened, such as an answer that arrives too late, does not make tensors, but
releases memory that was lent for it. Only `encode` and `decode` write and read the header. Nearly
every message is a body, or a body and one small tensor (`lone_table`), and takes a short path
through both functions, with the same bytes.

layout.py           the header and tables of a message; tables.py packs and reads the tables
types.py            the kinds of messages, by number
metadata.py         the named numbers and texts; metadata_fields.py reads them with checks
body.py             bytes of values and of calls
numpy_values.py     NumPy's values; error_parts.py: exceptions, in separate forms
remote_errors.py    how an exception gets to another worker
tensors.py          tensors, as a table and buffers; places.py: where arrays lie in the buffers.
                    ../gpu_transport/ keeps tensors of GPUs on GPUs
gate.py             decides what may be loaded; in strict mode pickle_scan.py reads a pickle before
                    it is loaded, and pickle_uses.py has what each thing in it may be used for
limits.py           the most that a worker sends and accepts
ids.py              ids of all kinds, as text
"""

from __future__ import annotations
