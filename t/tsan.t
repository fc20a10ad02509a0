#!/usr/bin/perl

# Whatever several threads or processes touch, under the thread sanitizer:
# rings, places, slots, the engine's loop and its pool of threads ("make
# SAN=thread BUILD=build/tsan tsan").

use warnings;
use strict;

use Test::More;

my $build = ($ENV{BUILD} || 'build') . '/tsan';
my @tests = glob "$build/t/*_test";

ok(@tests > 5, 'there are tests') or BAIL_OUT('none are built');

# gcc's runtime knows the addresses of a kernel that does not shuffle them too
# far: without shuffling where that is allowed

my @plain = system('setarch -R true >/dev/null 2>&1') == 0
            ? qw/ setarch -R / : ();

my $first = `@plain $tests[0] 2>&1`;

if ($first =~ /FATAL: ThreadSanitizer: unexpected memory mapping/) {
    SKIP: { skip 'ThreadSanitizer does not run on this kernel', 1 }
    @tests = ();
}

for my $test (@tests) {
    my ($name) = $test =~ m{([^/]+)$};
    my $out = `@plain $test 2>&1`;

    is($?, 0, "$name: ends well") or diag $out;
    unlike($out, qr/ThreadSanitizer/, "$name: no race");
}

done_testing();
