#!/bin/sh

# Runs the tests that need a device and counts them in the last line, "N
# passed, N failed, N skipped": assertions of those that speak TAP, else one
# for each program.
#
#     [MODELS="FILE..."] [WITH="COMMAND..."] run.sh libmst_cuda.so PROGRAM...
#
# MODELS are compared, too.  WITH is put before each program, such as
# "compute-sanitizer --error-exitcode 1 --tool memcheck".

library=$1
shift
passed=0 failed=0 skipped=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

for program in "$@"; do
    case $program in
        */mst_k_*) args= ;;
        *) args="$library $MODELS" ;;
    esac

    echo "== ${program##*/}"
    CMOCKA_MESSAGE_OUTPUT=TAP $WITH $program $args >"$out" 2>&1
    rc=$?
    cat "$out"

    if grep -q '^1\.\.0\|^skipped: ' "$out"; then
        skipped=$((skipped + 1))

    elif grep -q '^1\.\.[1-9]' "$out"; then
        skip=$(grep -c '^\(not \)\{0,1\}ok .*# SKIP' "$out")
        bad=$(grep '^not ok' "$out" | grep -vc '# SKIP')
        good=$(grep '^ok' "$out" | grep -vc '# SKIP')

        # one that died has not said so

        [ "$rc" = 0 ] || [ "$bad" != 0 ] || bad=1

        passed=$((passed + good))
        failed=$((failed + bad))
        skipped=$((skipped + skip))

    elif [ "$rc" = 0 ]; then
        passed=$((passed + 1))

    else
        echo "exit status $rc"
        failed=$((failed + 1))
    fi
done

echo "$passed passed, $failed failed, $skipped skipped"

[ "$failed" = 0 ]
