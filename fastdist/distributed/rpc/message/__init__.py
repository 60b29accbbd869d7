"""Messages: what one holds, its bytes, and how values and tensors become them and come back."""

# The design note of this room.
#
# There is one type, `Message` (`message.py`). Who sends one fills in what it holds, lets the
# interceptors add to it, and encodes it; who receives one decodes the frames, which reads all but
# the tensors, then opens it, and the interceptors take off what they added:
#
#     message = Message(kind, message_id, peer=..., tensors=[x], body=body, encoding=encoding)
#     frames = message.encode(lender, device_map, limits=...)     # pipe/ carries them
#     message = decode(frames, limits, peer)
#     message.open()                                              # makes the tensors
#     message.value()                                             # reads the body, once
#
# What is never opened (an answer that comes too late) makes no tensors, but takes what was lent
# for it. `encode` and `decode` alone write and read the header. Nearly every message is a body, or
# a body and one small tensor (`lone_table`), and takes a short path through both of them; the
# bytes are those of the long way.
#
# A message's bytes are a header, tables, a body and buffers: `layout.py` has them, `tables.py`
# packs and reads the tables, `metadata.py` the small values, which `metadata_fields.py` reads as
# what they should be, and `types.py` numbers the kinds. `limits.py` is what a worker sends and
# takes at most. `ids.py` is how ids of all kinds are told to people.
#
# What stands in it comes from two files: `body.py` makes bytes of values and of calls, `tensors.py`
# alone looks into Tensors; `places.py` says where their bytes lie, and `../gpu_transport/`
# keeps tensors of GPUs on GPUs. NumPy's values and exceptions have a form of their own
# (`numpy_values.py`, `error_parts.py`); `remote_errors.py` is how an exception crosses workers.
# `gate.py` alone decides what may be loaded, and in strict mode `pickle_scan.py` looks at a pickle
# before it is read, by what may be done with each thing in it (`pickle_uses.py`).

from __future__ import annotations
