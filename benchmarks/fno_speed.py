"""neuraloperator's own FNO over ours with the same weights, on a CPU: how many times as long it takes.

    python benchmarks/fno_speed.py [--points 208] [--width 128] [--batch 1] [--repetitions 7] [--compile]

"operator" is the whole one, of which maps at each point are most: convolutions there, products of matrices here.
"layer" is one spectral convolution, in either case with the layout that it has inside the operator, channels first
there and last here. Processor time, medians, both in turn in one process.
"""

import argparse
import statistics
import time
import warnings

import torch
from literal_forms import as_literal_fno

from operformer import Grid
from operformer.operators.baselines.fno import FNO, make_half_spectrum, spectral_convolution


def neuralops_layer(operator, v):
    """neuraloperator's spectral convolution with the weights of the operator's first layer, without its bias."""
    conv = operator.network.fno_blocks.convs[0]
    v = v.movedim(-1, 1).contiguous().requires_grad_()

    def layer():
        weights = {"weight.tensor": torch.view_as_complex(operator.spectral[0])}
        return torch.func.functional_call(conv, weights, (v,)) - conv.bias

    return layer


def our_layer(operator, v):
    v = v.clone().requires_grad_()

    def layer():
        spectrum = make_half_spectrum(v.shape[1:-1], operator.modes, v)
        return spectral_convolution(v, operator.spectral[0], spectrum, operator.modes)

    return layer


def step(function, *given):
    function(*given).square().mean().backward()


def infer(function, *given):
    with torch.no_grad():
        function(*given)


def compare(title, forms, given, repetitions):
    """Print the seconds of each form, and how many times as long as ours the first, neuraloperator's, takes."""
    for name, action in (("step", step), ("inference", infer)):
        times = {form: [] for form in forms}
        for _ in range(repetitions + 1):  # the first is not counted
            for form, function in forms.items():
                started = time.process_time()
                action(function, *given)
                times[form].append(time.process_time() - started)
        found = {form: statistics.median(seconds[1:]) for form, seconds in times.items()}
        ratios = "  ".join(f"{form} {s:.4f} s ({found['neuraloperator'] / s:.2f})" for form, s in found.items())
        print(f"{title}, {name}: {ratios}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=208)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="ours compiled as well")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    operator = FNO(2, 1, 1, hidden_channels=arguments.width)
    shape = (arguments.points,) * 2
    grid, u = Grid.uniform(shape, kind="cells"), torch.randn(arguments.batch, 1, *shape)
    v = torch.randn(arguments.batch, *shape, arguments.width)
    layers = {"neuraloperator": neuralops_layer(operator, v), "ours": our_layer(operator, v)}
    operators = {"neuraloperator": as_literal_fno(operator), "ours": operator}
    if arguments.compile:
        operators["ours compiled"] = torch.compile(operator, dynamic=False, fullgraph=True)
    compare("layer", layers, (), arguments.repetitions)
    compare("operator", operators, (u, grid), arguments.repetitions)


if __name__ == "__main__":
    main()
