#!/usr/bin/perl

# The fuzz targets without a fuzzer: their seeds, cut and changed, under
# ASan and UBSan ("make fuzz" searches for more).

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

done_testing();
