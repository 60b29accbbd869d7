"""PyTorch's old constructors on a GPU: `cuda.FloatTensor(2, 3)`, `cuda.FloatStorage(6)`."""

from __future__ import annotations

from ..namespace.typed_tensors import TYPED_CUDA_TENSORS
from ..tensor.typed_storage import TYPED_CUDA_STORAGES

BFloat16Tensor = TYPED_CUDA_TENSORS["BFloat16Tensor"]
BoolTensor = TYPED_CUDA_TENSORS["BoolTensor"]
ByteTensor = TYPED_CUDA_TENSORS["ByteTensor"]
CharTensor = TYPED_CUDA_TENSORS["CharTensor"]
DoubleTensor = TYPED_CUDA_TENSORS["DoubleTensor"]
FloatTensor = TYPED_CUDA_TENSORS["FloatTensor"]
HalfTensor = TYPED_CUDA_TENSORS["HalfTensor"]
IntTensor = TYPED_CUDA_TENSORS["IntTensor"]
LongTensor = TYPED_CUDA_TENSORS["LongTensor"]
ShortTensor = TYPED_CUDA_TENSORS["ShortTensor"]

BFloat16Storage = TYPED_CUDA_STORAGES["BFloat16Storage"]
BoolStorage = TYPED_CUDA_STORAGES["BoolStorage"]
ByteStorage = TYPED_CUDA_STORAGES["ByteStorage"]
CharStorage = TYPED_CUDA_STORAGES["CharStorage"]
ComplexDoubleStorage = TYPED_CUDA_STORAGES["ComplexDoubleStorage"]
ComplexFloatStorage = TYPED_CUDA_STORAGES["ComplexFloatStorage"]
DoubleStorage = TYPED_CUDA_STORAGES["DoubleStorage"]
FloatStorage = TYPED_CUDA_STORAGES["FloatStorage"]
HalfStorage = TYPED_CUDA_STORAGES["HalfStorage"]
IntStorage = TYPED_CUDA_STORAGES["IntStorage"]
LongStorage = TYPED_CUDA_STORAGES["LongStorage"]
ShortStorage = TYPED_CUDA_STORAGES["ShortStorage"]
