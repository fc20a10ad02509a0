#!/usr/bin/perl

# All tests through one harness: C units (cmocka prints TAP when asked), the
# same units under sanitizers, t/*.t, and the Python clients.  The last line
# is "N passed, N failed, N skipped" and counts single assertions; a test
# program that dies or prints nothing counts as one failure.
#
#     perl t/run.pl [FILE...]           default: everything

use warnings;
use strict;

use TAP::Harness;

my $build = $ENV{BUILD} || 'build';

$ENV{CMOCKA_MESSAGE_OUTPUT} = 'TAP';
$ENV{ASAN_OPTIONS} ||= 'detect_leaks=1:abort_on_error=0';
$ENV{UBSAN_OPTIONS} ||= 'print_stacktrace=1';

my @tests = @ARGV ? @ARGV : (
    (glob "$build/t/*_test"),
    (glob "$build/san/t/*_test"),
    (glob 't/*.t'),
    (glob 't/clients/*_test.py'),
);

my $harness = TAP::Harness->new({
    timer => 1,
    exec  => sub {
        my ($h, $file) = @_;
        return [ $^X, '-It/lib', $file ] if $file =~ /\.t$/;
        return [ $ENV{PYTHON} || "$build/venv/bin/python", $file ] if $file =~ /\.py$/;
        return [ $file ];
    },
});

my $all = $harness->runtests(@tests);

my ($passed, $failed, $skipped) = (0, 0, 0);

for my $parser ($all->parsers) {

    # cmocka prints a skipped test as "not ok ... # SKIP"

    my %skip = map { $_ => 1 } $parser->skipped;
    my $bad = grep { !$skip{$_} } $parser->failed;

    $skipped += keys %skip;
    $passed += grep { !$skip{$_} } $parser->passed;
    $failed += $bad;

    # a program that ended badly though its assertions passed

    $failed++ if !$bad && ($parser->exit || $parser->wait
                           || $parser->parse_errors);

    # a whole file that skips itself

    $skipped++ if defined $parser->skip_all && length $parser->skip_all;
}

print "$passed passed, $failed failed, $skipped skipped\n";

exit($failed ? 1 : 0);
