# Sourced by the scripts that need a GPU: parts with time limits, whose output is kept, and a summary.
#
# `begin FOLDER` first: logs go there. PYTHON names the interpreter.

begin() {
    logs=${1:-$(mktemp -d)}
    mkdir -p "$logs"
    python=${PYTHON:-python}
    export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
    summary=()
    failed=0
    began=$SECONDS
}

part() { # part NAME SECONDS COMMAND...: run it with a time limit, keep its output; the last line of JSON in a file
    local name=$1 seconds=$2 start=$SECONDS code
    shift 2
    echo "== $name: $*"
    timeout --kill-after=5 "$seconds" "$@" >"$logs/$name.log" 2>&1
    code=$?
    [ "$code" -eq 0 ] || failed=1
    # Last lines of JSON are long, and in the log.
    grep -v '^{' "$logs/$name.log" | tail -n "${SHOWN:-60}" | cut -c-"${COLUMNS_SHOWN:-200}"
    if grep -q '^{' "$logs/$name.log"; then
        grep '^{' "$logs/$name.log" | tail -n 1 >"$logs/$name.json"
    fi
    case $code in
        0) summary+=("passed   $name ($((SECONDS - start)) s)") ;;
        124 | 137) summary+=("TIMEOUT  $name (after $seconds s)") ;;
        *) summary+=("FAILED   $name (exit code $code, $((SECONDS - start)) s)") ;;
    esac
}

finish() { # print and keep the summary; exits with 1 if a part did not pass
    echo
    printf '%s\n' "${summary[@]}" "$((SECONDS - began)) s in all, logs and JSON in $logs" | tee "$logs/summary.txt"
    exit "$failed"
}
