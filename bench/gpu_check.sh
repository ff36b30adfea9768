#!/usr/bin/env bash
# Everything that needs a GPU, in one go of less than eight minutes: the tests marked gpu, every kernel against its
# definition, and what the host does and launches around a step.
#
#     bench/gpu_check.sh [FOLDER]      logs go to FOLDER; PYTHON names the interpreter
#
# Stops at nothing: a summary at the end says what passed. The exit code is 1 if anything did not.
set -u
cd "$(dirname "$0")/.." || exit 2
logs=${1:-$(mktemp -d)}
mkdir -p "$logs"
python=${PYTHON:-python}
export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
unset TRITON_INTERPRET
summary=()
failed=0

check() { # check NAME SECONDS COMMAND...: run it with a time limit, keep its output
    local name=$1 seconds=$2 start=$SECONDS code
    shift 2
    echo "== $name: $*"
    timeout --kill-after=5 "$seconds" "$@" >"$logs/$name.log" 2>&1
    code=$?
    [ "$code" -eq 0 ] || failed=1
    # Last lines of JSON are long, and in the log.
    grep -v '^{' "$logs/$name.log" | tail -n 60 | cut -c-200
    case $code in
        0) summary+=("passed   $name ($((SECONDS - start)) s)") ;;
        124 | 137) summary+=("TIMEOUT  $name (after $seconds s)") ;;
        *) summary+=("FAILED   $name (exit code $code, $((SECONDS - start)) s)") ;;
    esac
}

describe='
import torch, triton
assert torch.cuda.is_available(), "torch sees no CUDA device"
print(torch.cuda.get_device_name(), "torch", torch.__version__, "triton", triton.__version__, "CUDA", torch.version.cuda)
'
check device 30 "$python" -c "$describe"
check ops 100 "$python" bench/ops.py --device cuda --shape 4b --repeats 5 --threads "$(nproc)"
check overhead-nano 60 "$python" bench/overhead.py --device cuda
check overhead-4b 80 "$python" bench/overhead.py --device cuda --model 4b-random-layers 8
check tests 205 "$python" -m pytest -q -m gpu -p no:cacheprovider tests

echo
printf '%s\n' "${summary[@]}" | tee "$logs/summary.txt"
exit "$failed"
