#!/bin/sh

# An nginx of the system with the sanitizers' runtime, for a module built with
# SAN=1: "make SAN=1 all" fills in the capitals and puts this into the build
# folder as sbin/nginx.

exec env LD_PRELOAD="ASAN:PRELOAD" \
    ASAN_OPTIONS="$ASAN_OPTIONS:detect_odr_violation=0" \
    LSAN_OPTIONS="suppressions=HERE/nginx.supp:print_suppressions=0" \
    NGINX "$@"
