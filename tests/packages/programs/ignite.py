"""Train and evaluate with Ignite's engine and metrics."""

import torch
from data import fill, random, report
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import MeanSquaredError

model = fill(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [(random(4, 3, seed=n), random(4, 1, seed=n + 9)) for n in range(3)]
trainer = create_supervised_trainer(model, optimizer, torch.nn.functional.mse_loss)
evaluator = create_supervised_evaluator(model, metrics={"mse": MeanSquaredError()})
losses = []
trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda e: losses.append(e.state.output))
trainer.run(batches, max_epochs=2)
evaluator.run(batches)
report(losses=losses, mse=evaluator.state.metrics["mse"])
