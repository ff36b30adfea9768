#!/usr/bin/env bash
# The ladder on a GPU, in one go of less than eight minutes: steps of a 4B model with random weights on every rung, from
# images to tokens beside transformers, every kernel beside its peers, and ocria-nano with real text.
#
#     bench/gpu_ladder.sh [FOLDER]          logs and JSON go to FOLDER; PYTHON names the interpreter
#     bench/gpu_ladder.sh --dry [FOLDER]    the same parts at tiny shapes on the CPU: does everything run?
#
# The most important part comes first. Each has its own time limit, and what one has measured is kept when it or another
# fails. How many drafts of the networks hold is forced, and every output says so: `bench/ladder/forced.py`.
set -u
cd "$(dirname "$0")/.." || exit 2
. bench/gpu_parts.sh
dry=
if [ "${1:-}" = --dry ]; then
    dry=1
    shift
fi
begin "${1:-}"

if [ -n "$dry" ]; then
    device=(-c 'import torch, platform; print("dry run on", platform.machine(), "torch", torch.__version__)')
    steps=(--model tiny-random --batch 2 --steps 2 --turns 1 --way plain "mix, DFlash2")
    climb=(--model tiny-random --batch 2 --limit 2 --answer 12 --repeats 1 --threads 1 --rung batching dflash)
    ops=(--only norm --repeats 1)
    nano=(--batch 1 --limit 1 --repeats 1 --threads 1)
else
    unset TRITON_INTERPRET
    device=(-c '
import torch, triton
assert torch.cuda.is_available(), "torch sees no CUDA device"
print(torch.cuda.get_device_name(), "torch", torch.__version__, "triton", triton.__version__, "CUDA", torch.version.cuda)
')
    steps=(--device cuda --batch 1 8 12 32
        --way "plain, no graph" plain DFlash DFlash2 "mix, DFlash2" "mix, look-up" transformers)
    climb=(--device cuda --model 4b-random --batch 8 --limit 8 --answer 128 --repeats 1
        --rung transformers batching dflash dflash2 mix graphs)
    ops=(--device cuda --shape 4b --repeats 3 --threads "$(nproc)" --only replay attend chunk quant_fp8 quant_nvfp4)
    nano=(--device cuda --limit 32 --repeats 1)
fi

# 20 + 215 + 100 + 70 + 45 + 15 = 465 seconds at most.
part device 20 "$python" "${device[@]}"
part steps 215 "$python" -m bench.ladder.steps "${steps[@]}"
part ladder 100 "$python" -m bench.ladder "${climb[@]}"
part ops 70 "$python" bench/ops.py "${ops[@]}"
part nano 45 "$python" bench/throughput.py "${nano[@]}"
part peers 15 "$python" -m bench.ladder.peers
finish
