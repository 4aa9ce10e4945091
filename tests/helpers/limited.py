"""A process with a limit of memory: python limited.py FOLDER LIMIT load|train."""

import json
import resource
import sys
import tempfile

import torch

from operformer import ViTNO
from operformer.data.store import open_pairs
from operformer.training.loop import Training, train


def main(folder, limit, action):
    resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
    torch.set_num_threads(1)
    pairs = open_pairs(folder)
    result = {"pairs": len(pairs)}
    if action == "load":
        pairs.read()
    else:
        n, (in_channels, out_channels) = len(pairs) * 9 // 10, pairs.channels
        operator = ViTNO((2, 2), 2, in_channels, out_channels, hidden_channels=4, n_layers=1, n_heads=1)
        settings = Training(epochs=1, batch_size=16, device="cpu")
        with tempfile.TemporaryDirectory() as run:
            train(operator, pairs[:n], pairs[n:], settings, run)
            with open(f"{run}/metrics.jsonl") as file:
                result |= json.loads(file.readlines()[-1])
    print(json.dumps(result | {"peak": peak()}))


def peak():
    """The most bytes that were resident; getrusage counts those of the process that started this one, too."""
    with open("/proc/self/status") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


if __name__ == "__main__":
    main(*sys.argv[1:])
