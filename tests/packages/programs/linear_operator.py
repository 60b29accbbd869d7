"""Solves, determinants and products of linear_operator, which overrides torch's functions."""

import torch
from data import random, report
from linear_operator import to_linear_operator
from linear_operator.operators import DiagLinearOperator

half = random(5, 5).double()
matrix = (half @ half.T + 5 * torch.eye(5).double()).requires_grad_()
operator = to_linear_operator(matrix) + DiagLinearOperator(torch.arange(1.0, 6).double())
right = random(5, 2, seed=2).double()
quadratic, determinant = operator.inv_quad_logdet(right, logdet=True)
(quadratic + determinant).backward()
report(
    solved=operator.solve(right),
    product=torch.matmul(operator, right),
    grad=matrix.grad,
    part=operator[1:3, 2:].to_dense(),
)
