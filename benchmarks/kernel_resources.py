"""Compiles the kernels of small_heads.py and mending.py for compute capability 9.0, with no GPU; prints what they take.

    python benchmarks/kernel_resources.py [fp16 bf16] [--variants]

One line of JSON for each pass and width (weights, parts of tiles), or with --variants for all four forms.
"""

import json
import re
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from operformer.kernels.small_heads import ROWS, TILINGS, launch
from operformer.kernels.small_heads_tiles import average_kernel, key_kernel, query_kernel, slope_kernel

KERNELS = {"average": average_kernel, "queries": query_kernel, "keys": key_kernel, "joint": key_kernel}
WIDE = ("weights", "logarithm", "every_sum", "lowered", "slope")
HALF = ("query", "key", "value", "d_out", "every", "d_query", "d_key", "d_value")
REAL = ("scale", "factor", "key_factor", "value_factor", "shift", "most")
MENDED = (64, 128)  # channels of heads whose kernels take sums away
DUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def type_of(name, half, part, constants):
    is_wide = (part == "joint" and name == "d_query") or (constants.get("parted") and name in ("d_key", "d_value"))
    if name in WIDE or name == "out" or is_wide:
        return "*fp32"
    if name in HALF:
        return f"*{half}"
    return "fp32" if name in REAL else "i32"


def compiled(kernel, half, part, options, **constants):
    """A kernel for contiguous inputs whose sizes are multiples of 16, as a launch would specialise it."""
    names = kernel.arg_names
    types = {name: "constexpr" if name in constants else type_of(name, half, part, constants) for name in names}
    aligned = [i for i, name in enumerate(names) if types[name] == "i32" or types[name].startswith("*")]
    source = ASTSource(
        kernel,
        types,
        {(names.index(name),): value for name, value in constants.items()},
        {(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def one(part, width, half, is_weighted, is_even):
    tiling = TILINGS[width, part]
    form = launch(tiling)
    options = {name: form.pop(name) for name in ("num_warps", "maxnreg") if name in form}
    constants = form | {"width": width, "weighted": is_weighted, "even": is_even}
    if part in ("keys", "joint"):
        constants |= {"biased": is_weighted or (part == "joint" and not is_even), "joint": part == "joint"}
        constants["parted"] = width in MENDED
    else:
        constants["less"] = width in MENDED
    return compiled(KERNELS[part], half, part, options, **constants)


def taken(kernel):
    """Registers and spilled bytes of a thread, shared memory of a program, its products, and for how many it waits.

    Hopper's products are issued in groups; the compiler waits for each of them where it finds no way around it.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        usage, code = (
            subprocess.run([DUMP, option, file.name], capture_output=True, text=True, check=True).stdout
            for option in ("--dump-resource-usage", "-sass")
        )
    registers, spilled = map(int, re.search(r"REG:(\d+) STACK:(\d+)", usage).groups())
    return {
        "registers": registers,
        "spilled": spilled,
        "shared": kernel.metadata.shared,
        "products": len(re.findall(r"\bHG?MMA\.", code)),
        "groups": code.count("WARPGROUP.ARRIVE"),
    }


def main():
    if not DUMP.exists():
        print("this Triton comes without the tools for CUDA")
        return
    halves = [name for name in sys.argv[1:] if not name.startswith("-")] or ["fp16", "bf16"]
    forms = list(product([True, False], [False, True])) if "--variants" in sys.argv else [(True, False)]
    for half in halves:
        for (width, part), (is_weighted, is_even) in product(TILINGS, forms):
            about = {"part": part, "width": width, "half": half, "weighted": is_weighted, "even": is_even}
            print(json.dumps(about | taken(one(part, width, half, is_weighted, is_even))), flush=True)
        slope = compiled(slope_kernel, half, "slope", {"num_warps": 4}, width=16, queries=ROWS)
        print(json.dumps({"part": "slope", "half": half} | taken(slope)), flush=True)


if __name__ == "__main__":
    main()
