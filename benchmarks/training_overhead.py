"""What the training loop costs beyond a bare PyTorch loop with the same model, data, optimizer and schedule, on a CPU.

    python benchmarks/training_overhead.py [--width 64] [--layers 4] [--samples 1000] [--epochs 2] [--rounds 5]

The loops take turns. Printed: seconds of the wall clock and of the processor, and the ratios; on a machine that does
other things the processor's ratio is the one to look at. Checkpoints, metrics and checks of the data are included.
"""

import argparse
import tempfile
import time
from statistics import median

import torch

from operformer import TNO
from operformer.evaluation.loss import relative_l2
from operformer.problems import Lorenz63
from operformer.training.loop import Training, train
from operformer.training.status import TrainingDisplay


def make_operator(width, layers):
    torch.manual_seed(0)
    return TNO(1, 1, 1, hidden_channels=width, n_layers=layers, n_heads=4)


def bare(operator, samples, validation, settings):
    """What one writes by hand: shuffled batches, a loss, clipping, AdamW, a cosine, a validation each epoch."""
    optimizer = torch.optim.AdamW(operator.parameters(), settings.learning_rate, weight_decay=0.0)
    batches = -(-len(samples) // settings.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.epochs * batches)
    for _ in range(settings.epochs):
        operator.train()
        for chosen in torch.randperm(len(samples)).split(settings.batch_size):
            u, z = samples.u[chosen], samples.z[chosen]
            loss = relative_l2(operator(u, samples.grid), z, samples.grid).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(operator.parameters(), settings.clip_norm)
            optimizer.step()
            schedule.step()
            loss.item()
        operator.eval()
        with torch.no_grad():
            for first in range(0, len(validation), 64):
                batch = validation[first : first + 64]
                relative_l2(operator(batch.u, batch.grid), batch.z, batch.grid)


def seconds(action):
    """On the wall, and of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - processor


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    settings = Training(epochs=given.epochs, batch_size=32, learning_rate=1e-3, schedule="cosine", device="cpu")
    pairs = Lorenz63().sample(given.samples + 100, 100).to(dtype=torch.float32)
    samples, validation = pairs[: given.samples], pairs[given.samples :]
    TrainingDisplay.epoch = lambda *_: None  # its lines would be in between

    def by_hand():
        bare(make_operator(given.width, given.layers), samples, validation, settings)

    def by_train():
        with tempfile.TemporaryDirectory() as folder:
            train(make_operator(given.width, given.layers), samples, validation, settings, folder)

    by_hand()
    by_train()
    ratios = []
    for number in range(given.rounds):
        hand, ours = seconds(by_hand), seconds(by_train)
        ratios.append((ours[0] / hand[0], ours[1] / hand[1]))
        for name, k in (("wall", 0), ("processor", 1)):
            ratio = f"ratio {ratios[-1][k]:.3f}"
            print(f"round {number + 1}, {name}: by hand {hand[k]:.2f} s, train {ours[k]:.2f} s, {ratio}", flush=True)
    wall, processor = (median(column) for column in zip(*ratios, strict=True))
    print(f"median ratio: wall {wall:.3f}, processor {processor:.3f}, an overhead of {processor - 1:.1%}")


if __name__ == "__main__":
    main()
