"""Accumulate metrics over two batches."""

import torch
from data import random, report
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef

labels = torch.arange(12).reshape(2, 6) % 4
found = {}
for metric in (MulticlassAccuracy(4), MulticlassF1Score(4)):
    for batch in range(2):
        metric.update(random(6, 4, seed=batch), labels[batch])
    found[type(metric).__name__] = metric.compute()
for metric in (MeanSquaredError(), PearsonCorrCoef()):
    for batch in range(2):
        metric.update(random(6, seed=batch), random(6, seed=batch + 5))
    found[type(metric).__name__] = metric.compute()
report(**found)
