#!/bin/sh

# An nginx of the system with the sanitizers' runtime, for a module built with
# SAN=1: "make SAN=1 all" fills in the capitals and puts this into the build
# folder as sbin/nginx.

o=detect_odr_violation=0:verify_asan_link_order=0

exec env LD_PRELOAD="PRELOAD:ASAN" ASAN_OPTIONS="$ASAN_OPTIONS:$o" \
    LSAN_OPTIONS="suppressions=HERE/nginx.supp:print_suppressions=0" \
    NGINX "$@"
