"""Coverage-guided fuzzing of the readers: `python .ci/fuzz_readers.py [TARGET ...] --seconds 60 --out FOLDER`.

Needs atheris (pip install atheris). Each target of tests/helpers/readers.py runs in a process of its own for so many
seconds. What breaks a reader is left in FOLDER/TARGET/found, what reached new lines in FOLDER/TARGET/corpus.
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]
MEMORY = 3000  # MiB


def fuzz(target, readers, arguments):
    """Run libFuzzer in this process; it never returns."""
    import atheris

    def mutate(content, most, seed):
        changed = readers.changed_json(content, random.Random(seed)) if seed % 2 else None
        return changed if changed and len(changed) <= most else atheris.Mutate(content, len(content))

    is_json = readers.TARGETS[target][1].endswith((".json", ".jsonl")) or target == "safetensors-header"
    options = {"custom_mutator": mutate} if is_json else {}
    # Whatever is none of the library's errors is a finding.
    atheris.Setup([sys.argv[0], *arguments], lambda content: readers.attempt(target, content) and None, **options)
    atheris.Fuzz()


def forked(target, readers, arguments, log):
    """`fuzz` in a process of its own, its words in the log; true once its time is over."""
    child = os.fork()
    if not child:
        words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(words, 1)
        os.dup2(words, 2)
        fuzz(target, readers, arguments)
    return os.waitpid(child, 0)[1] == 0


def campaign(names, seconds, out):
    """Every target in turn, again after each finding until its time is over."""
    import atheris

    with atheris.instrument_imports(include=["operformer", "zipfile", "pickletools", "tomllib"]):
        import readers

    seeds = readers.seeds()
    for name in names or seeds:
        corpus, found = out / name / "corpus", out / name / "found"
        corpus.mkdir(parents=True, exist_ok=True)
        found.mkdir(exist_ok=True)
        for content in seeds[name]:
            (corpus / readers.fingerprint(content)).write_bytes(content)
        end = time.monotonic() + seconds
        while (left := int(end - time.monotonic())) > 2:
            options = [f"-max_total_time={left}", f"-rss_limit_mb={MEMORY}", "-timeout=60", "-max_len=20000"]
            if forked(name, readers, [str(corpus), *options, f"-artifact_prefix={found}/"], out / name / "log"):
                break
        runs = sum(
            int(line.split()[1])
            for line in (out / name / "log").read_text(errors="replace").splitlines()
            if line.startswith("Done ")
        )
        counts = len(list(corpus.iterdir())), len(list(found.iterdir()))
        print(f"{name:20} {runs:9} calls  {counts[0]:5} in the corpus  {counts[1]:4} findings", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, default=Path("fuzzed"))
    given = parser.parse_args()
    campaign(given.targets, given.seconds, given.out)


if __name__ == "__main__":
    main()
