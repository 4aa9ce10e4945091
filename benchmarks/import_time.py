"""How long `import operformer`, its names and `operformer --help` take, beside `import torch`, in one run.

    python benchmarks/import_time.py [--repetitions 7] [--processor] [--slowest 0]

Each is a fresh process; they take turns, and times are medians over them less that of an empty one. "names" is
`from operformer import *`, which imports torch, so its ratio is what the library adds. --slowest 15 lists the modules
that take longest besides torch, by -X importtime.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

PROGRAMS = {
    "nothing": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import operformer": ["-c", "import operformer"],
    "names": ["-c", "from operformer import *"],
    "operformer --help": ["-m", "operformer.cli", "--help"],
}


def seconds(arguments, processor):
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    if not processor:
        return time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - used.ru_utime + after.ru_stime - used.ru_stime


def slowest(count):
    command = [sys.executable, "-X", "importtime", "-c", "import torch; from operformer import *"]
    done = subprocess.run(command, check=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    rows = []
    for line in done.stderr.splitlines():
        own, total, name = line.removeprefix("import time:").split("|")
        if own.strip().isdecimal():
            rows.append((int(own) / 1e3, int(total) / 1e3, name.strip()))
    after = rows[[name for _, _, name in rows].index("torch") + 1 :]
    for own, total, name in sorted(after, reverse=True)[:count]:
        print(f"  {own:7.1f} ms alone  {total:7.1f} ms with what it imports  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--processor", action="store_true", help="its time, on a CPU that does other things as well")
    parser.add_argument("--slowest", type=int, default=0, help="so many modules")
    arguments = parser.parse_args()
    for program in PROGRAMS.values():
        seconds(program, arguments.processor)  # files into memory
    times = {name: [] for name in PROGRAMS}
    for _ in range(arguments.repetitions):
        for name, program in PROGRAMS.items():
            times[name].append(seconds(program, arguments.processor))
    medians = {name: statistics.median(values) for name, values in times.items()}
    torch = medians["import torch"] - medians["nothing"]
    for name in list(PROGRAMS)[1:]:
        taken = medians[name] - medians["nothing"]
        print(f"{name:<20}{1e3 * taken:7.0f} ms  ratio to torch {taken / torch:.3f}")
    if arguments.slowest:
        slowest(arguments.slowest)


if __name__ == "__main__":
    main()
