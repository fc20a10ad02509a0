#!/bin/sh

# Runs every fuzz target for TIME seconds (30), one after the other; finds go on
# from the seeds and from what earlier runs have found.  Says where the input
# of a crash lies.
#
#     BUILD=build/fuzz TIME=30 sh t/fuzz/run.sh [TARGET...]

set -u
TIME=${TIME:-30}

bad=0
mkdir -p "$BUILD/crash"

for target in ${*:-"$BUILD"/t/fuzz/*_fuzz}; do
    name=$(basename "$target")
    log=$BUILD/$name.log
    mkdir -p "$BUILD/corpus/$name"

    if "$BUILD/t/fuzz/$name" -max_total_time="$TIME" -timeout=10 \
        -print_final_stats=1 -artifact_prefix="$BUILD/crash/$name-" \
        "$BUILD/corpus/$name" "t/fuzz/seeds/$name" >"$log" 2>&1
    then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "$name: $runs runs, nothing found"

    else
        bad=1
        echo "$name: FAILED, see $log"
        sed -n 's/.*Test unit written to \(.*\)/    the input: \1/p' "$log"
        grep -m 3 -E '^(==|SUMMARY|.*runtime error|.*not so:)' "$log"
    fi
done

exit $bad
