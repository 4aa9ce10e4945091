#!/usr/bin/env bash
# Every measurement of docs/speed.md on one GPU, a quarter of an hour or more: bash benchmarks/on_a_gpu.sh docs/speed [PART ...]
# Then: python benchmarks/speed_tables.py
set -uo pipefail
folder=$1
parts=${*:2}
mkdir -p "$folder"
for part in ${parts:-tests operators baselines attention growth}; do
    echo "== $part"
    case $part in
    tests) python3 -m pytest -q -m "not slow" tests/kernels tests/training/test_graphed.py tests/training/test_batches.py \
        tests/operators/test_graphed_inference.py tests/operators/test_precision.py tests/operators/test_few_weights.py \
        tests/operators/test_compiling.py tests/operators/baselines ;;
    operators) python3 benchmarks/operator_speed.py --operators TNO ViTNO FANO --together --out "$folder/operators.json" ;;
    baselines) python3 benchmarks/operator_speed.py --operators FNO AFNO --forms graphed literal --out "$folder/baselines.json" ;;
    attention) python3 benchmarks/attention_speed.py --points 16384 --out "$folder/attention.json" ;;
    tilings) # when kernels/small_heads.py has changed; not among the parts above
        python3 benchmarks/attention_speed.py --sweep --points 4096 --batch 16 --heads 16 --dtypes float16
        python3 benchmarks/attention_speed.py --sweep --points 16384 --batch 2 --heads 16 --dtypes float16 ;;
    growth) python3 benchmarks/cost_growth.py --scale paper --variables points patches --out "$folder/growth.json" ;;
    *) echo "no part is named $part" && exit 2 ;;
    esac || echo "== $part failed"
done
