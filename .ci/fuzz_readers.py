"""Coverage-guided fuzzing of the readers: `python .ci/fuzz_readers.py [TARGET ...] --seconds 60 --out FOLDER`.

Needs atheris (pip install atheris). Each target of tests/helpers/readers.py runs in a process of its own for so many
seconds. What breaks a reader is left in FOLDER/TARGET/found, what reached new lines in FOLDER/TARGET/corpus.
"""

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]
MEMORY = 3000  # MiB


def fuzz(target, arguments):
    """Run libFuzzer in this process; it never returns."""
    import atheris

    with atheris.instrument_imports(include=["operformer", "numpy.lib", "zipfile", "pickletools", "tomllib"]):
        import readers

    def mutate(content, most, seed):
        changed = readers.changed_json(content, random.Random(seed)) if seed % 2 else None
        return changed if changed and len(changed) <= most else atheris.Mutate(content, len(content))

    is_json = readers.TARGETS[target][1].endswith((".json", ".jsonl")) or target == "safetensors-header"
    options = {"custom_mutator": mutate} if is_json else {}
    # Whatever is none of the library's errors is a finding.
    atheris.Setup([sys.argv[0], *arguments], lambda content: readers.attempt(target, content) and None, **options)
    atheris.Fuzz()


def campaign(names, seconds, out):
    """Every target in turn, again after each finding until its time is over."""
    import readers

    seeds = readers.seeds()
    for name in names or seeds:
        corpus, found = out / name / "corpus", out / name / "found"
        corpus.mkdir(parents=True, exist_ok=True)
        found.mkdir(exist_ok=True)
        for content in seeds[name]:
            (corpus / readers.fingerprint(content)).write_bytes(content)
        end, executions = time.monotonic() + seconds, 0
        while (left := int(end - time.monotonic())) > 2:
            options = [f"-max_total_time={left}", f"-rss_limit_mb={MEMORY}", "-timeout=20", "-max_len=20000"]
            command = [sys.executable, __file__, "--inside", name, str(corpus), *options, f"-artifact_prefix={found}/"]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            (out / name / "log").open("a").write(done.stderr)
            executions += sum(int(line.split()[0][1:]) for line in done.stderr.splitlines()[-40:] if "DONE" in line)
            if done.returncode == 0:
                break
        n_found, n_corpus = len(list(found.iterdir())), len(list(corpus.iterdir()))
        print(f"{name:20} {seconds:6.0f} s  {n_corpus:5} in the corpus  {n_found:4} findings", flush=True)


def main():
    if sys.argv[1:2] == ["--inside"]:
        fuzz(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, default=Path("fuzzed"))
    given = parser.parse_args()
    campaign(given.targets, given.seconds, given.out)


if __name__ == "__main__":
    main()
