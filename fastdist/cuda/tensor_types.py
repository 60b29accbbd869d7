"""PyTorch's old constructors for GPU memory: `cuda.FloatTensor(2, 3)`, `cuda.FloatStorage(6)`."""

from __future__ import annotations

from ..namespace.typed_tensors import typed_cuda_tensors
from ..tensor.typed_storage import typed_cuda_storages

_TENSORS, _STORAGES = typed_cuda_tensors(), typed_cuda_storages()
BFloat16Tensor = _TENSORS["BFloat16Tensor"]
BoolTensor = _TENSORS["BoolTensor"]
ByteTensor = _TENSORS["ByteTensor"]
CharTensor = _TENSORS["CharTensor"]
DoubleTensor = _TENSORS["DoubleTensor"]
FloatTensor = _TENSORS["FloatTensor"]
HalfTensor = _TENSORS["HalfTensor"]
IntTensor = _TENSORS["IntTensor"]
LongTensor = _TENSORS["LongTensor"]
ShortTensor = _TENSORS["ShortTensor"]

BFloat16Storage = _STORAGES["BFloat16Storage"]
BoolStorage = _STORAGES["BoolStorage"]
ByteStorage = _STORAGES["ByteStorage"]
CharStorage = _STORAGES["CharStorage"]
ComplexDoubleStorage = _STORAGES["ComplexDoubleStorage"]
ComplexFloatStorage = _STORAGES["ComplexFloatStorage"]
DoubleStorage = _STORAGES["DoubleStorage"]
FloatStorage = _STORAGES["FloatStorage"]
HalfStorage = _STORAGES["HalfStorage"]
IntStorage = _STORAGES["IntStorage"]
LongStorage = _STORAGES["LongStorage"]
ShortStorage = _STORAGES["ShortStorage"]
