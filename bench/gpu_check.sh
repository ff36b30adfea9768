#!/usr/bin/env bash
# Everything that needs a GPU, in one go of less than eight minutes: the tests marked gpu, every kernel against its
# definition, and what the host does and launches around a step.
#
#     bench/gpu_check.sh [FOLDER]      logs go to FOLDER; PYTHON names the interpreter
#
# Stops at nothing: a summary at the end says what passed. The exit code is 1 if anything did not.
set -u
cd "$(dirname "$0")/.." || exit 2
. bench/gpu_parts.sh
begin "${1:-}"
unset TRITON_INTERPRET

describe='
import torch, triton
assert torch.cuda.is_available(), "torch sees no CUDA device"
print(torch.cuda.get_device_name(), "torch", torch.__version__, "triton", triton.__version__, "CUDA", torch.version.cuda)
'
part device 30 "$python" -c "$describe"
part ops 100 "$python" bench/ops.py --device cuda --shape 4b --repeats 5 --threads "$(nproc)"
part overhead-nano 60 "$python" bench/overhead.py --device cuda
part overhead-4b 80 "$python" bench/overhead.py --device cuda --model 4b-random-layers 8
part tests 205 "$python" -m pytest -q -m gpu -p no:cacheprovider tests
finish
