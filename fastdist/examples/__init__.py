"""Example programs: `fastdist demo`, and `fastdist demo NAME`.

`fastdist demo` starts a job of three processes, `fastdist run -n 3 -m fastdist.examples.digits`:

digits.py          the job: a model split over two workers, and its training; read this first
digits_settings.py the command-line options
digits_data.py     the 1,797 handwritten digits (digits.npy, credit in DIGITS_CREDIT.txt)
digits_check.py    the accuracy of the model, and a comparison with a single process
numpy_mlp.py       the same model written out in NumPy, to compare gradients with
digits_record.py   the display during the training, and the report at its end
digits_measures.py the measurements that each worker makes with hooks
digits_profile.py  an HTML page about some steps, made by the profiler of all workers
digits_summary.py  the figures as text and pictures, and a check of the results
time_line.py       a picture of the work of each worker over time
stopwatch.py       the time that a worker spends on each kind of work

`fastdist demo resume` is another job of three processes:

resume.py          a job that can be killed at any moment, and resumes from its last checkpoint

`fastdist demo NAME` runs one of these programs in one process:

cnn.py             a convolutional network reads digits
vae.py             a variational autoencoder draws digits
gan.py             a generative adversarial network draws digits
char_lstm.py       an LSTM learns the Zen of Python by heart
gpt.py             a transformer writes text like docstrings
actor_critic.py    reinforcement learning balances poles (cart_pole.py)
neural_ode.py      a network learns a differential equation through its solver
flow.py            affine couplings map a normal distribution to two moons
maml.py            meta-learning finds initial weights that adapt to a few points
pinn.py            a network learns, from the equation alone, how heat spreads in a rod

`fastdist demo NAME` also runs these jobs of several processes, as
`fastdist run -n N -m fastdist.examples.NAME`:

parameter_server.py        a server holds the model, and trainers call it
batch_parameter_server.py  a server answers trainers when all their gradients have arrived
rnn.py                     the embeddings are on a server, and the LSTM is on the trainer
pipeline.py                two stages on two workers, with micro-batches
rl.py                      an agent chooses the actions of several observers
batch_rl.py                the same agent chooses for all observers in one batch
data_parallel              ranks share the data of a loss (5 jobs, 4 with higher derivatives)

Shared parts:

catalogue.py       the names of all programs
job.py             how the processes of a job join it, and end together
demo.py            options, a progress bar, curves, and a check of the result
texts.py           texts from Python's standard library
progress.py        a bar on a terminal, plain lines elsewhere
svg.py             SVG shapes, text and axes
line_plot.py       a picture of curves or clouds of points
image_grid.py      a picture of small grey images
"""

from __future__ import annotations
