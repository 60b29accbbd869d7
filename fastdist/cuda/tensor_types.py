"""PyTorch's old constructors of tensors on a GPU, `cuda.FloatTensor(2, 3)`."""

from __future__ import annotations

from ..namespace.typed_tensors import TYPED_CUDA_TENSORS

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
