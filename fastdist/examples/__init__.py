"""Programs that run as they stand: `fastdist demo`, and `fastdist demo NAME`.

`fastdist demo` alone is a job of three processes, `fastdist run -n 3 -m fastdist.examples.digits`:

digits.py          the job: a model split over two workers, and its training; read this first
digits_settings.py what its command line may change
digits_data.py     the 1,797 handwritten digits (digits.npy, credit in DIGITS_CREDIT.txt)
digits_check.py    how good the model is, and whether one process would get the same
numpy_mlp.py       the same model written out in NumPy, which gradients are held against
digits_record.py   what is shown during the training and told at its end
digits_measures.py what each worker measures of itself, by hooks
digits_profile.py  some steps under the profiler of all workers, as a page
digits_summary.py  the figures as text and pictures, and whether promises were kept
time_line.py       a picture of what each worker did when
stopwatch.py       how long a worker spent on what

`fastdist demo resume` is another job of three processes:

resume.py          killed at any moment and started again, it goes on as if nothing had been

`fastdist demo NAME` is one of these, each a page to read, in one process:

cnn.py             a convolutional network reads digits
vae.py             a variational autoencoder draws digits
gan.py             a generator and a discriminator do
char_lstm.py       an LSTM learns the Zen of Python by heart
gpt.py             a transformer writes like docstrings
actor_critic.py    reinforcement learning balances poles (cart_pole.py)
neural_ode.py      a law of motion is learnt through its solver
flow.py            affine couplings bend a round cloud into two moons
maml.py            first weights are learnt from which a few points are enough
pinn.py            heat in a rod is learnt from the equation alone

And one of these, each a job of several processes, `fastdist run -n N -m fastdist.examples.NAME`:

parameter_server.py        a server holds the model, and trainers call it
batch_parameter_server.py  a server takes gradients, and answers once all are there
rnn.py                     tables on a server, the LSTM with the trainer
pipeline.py                two stages on two workers, small batches on their way
rl.py                      an agent decides for observers
batch_rl.py                it decides for all of them at once
data_parallel              ranks share the data of a loss with higher derivatives (4 jobs)

Shared parts:

catalogue.py       their names
job.py             a place in the job, and an end together
demo.py            options, a bar, curves, a stated result
texts.py           text that every Python brings along
progress.py        the bar on a terminal, plain lines elsewhere
svg.py             shapes, text and axes, and on them
line_plot.py       a picture of one or more curves or clouds of points
image_grid.py      a picture of small grey images
"""

from __future__ import annotations
