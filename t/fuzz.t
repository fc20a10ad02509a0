#!/usr/bin/perl

# The fuzz targets without a fuzzer: their seeds, cut and changed, under
# ASan and UBSan.  With LONG=1 the fuzzer itself, 30 s for each: "make fuzz"
# is the same for as long as one likes, and keeps what it finds.

use warnings;
use strict;

use Test::More;

my $build = $ENV{BUILD} || 'build';
my @targets = map { m{(\w+)\.c$} } glob 't/fuzz/*_fuzz.c';

ok(@targets > 0, 'there are targets');

for my $target (@targets) {
    my $program = "$build/san/t/fuzz/$target";
    my @seeds = glob "t/fuzz/seeds/$target/*";

    ok(@seeds > 0, "$target: has seeds");
    ok(-x $program, "$target: is built")
        or diag("make SAN=1 BUILD=$build/san fuzzers");

    my $out = `$program @seeds 2>&1`;

    is($?, 0, "$target: ends well") or diag($out);
    like($out, qr/^@{[ scalar @seeds ]} files$/m, "$target: all seeds");
}

if ($ENV{LONG}) {
    for my $target (@targets) {
        ok(-x "$build/fuzz/t/fuzz/$target", "$target: with the fuzzer");

        my $out = `BUILD=$build/fuzz sh t/fuzz/run.sh $build/fuzz/t/fuzz/$target 2>&1`;

        ok($? == 0 && $out =~ /: [1-9]\d* runs, nothing found/,
           "$target: nothing found") or diag($out);
    }
}

done_testing();
