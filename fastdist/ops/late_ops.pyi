# The ops that packages below the ones that declare them use: see late_ops.py.
from .nn.activation import logistic as logistic
from .nn.softmax import softmax as softmax
from .pointwise.arithmetic import floor_divide as floor_divide
from .pointwise.arithmetic import pow as pow
from .pointwise.arithmetic import remainder as remainder
from .pointwise.complex_numbers import view_as_complex as view_as_complex
from .pointwise.complex_numbers import view_as_real as view_as_real
from .pointwise.masked import masked_fill as masked_fill
from .pointwise.masked import where as where
from .pointwise.special import gamma_of as gamma_of
from .pointwise.special import log_gamma_of as log_gamma_of
from .shape.views import expand as expand
