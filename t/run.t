#!/usr/bin/perl

# t/run.pl, which runs all tests: what it counts, what it runs once more, and
# that nothing else passes by a second run.

use warnings;
use strict;

use File::Temp qw/ tempdir /;
use Test::More;

my $dir = tempdir(CLEANUP => 1);

# a file's text stands behind "my $n", which says how often it runs

my %files = (
    passes => 'print "ok 1\nok 2\nok 3 # SKIP not here\n1..3\n"',
    late   => 'print $n == 1 ? "not ok 1 - in time\n" : "ok 1\n", "1..1\n";'
              . 'warn "too late\n" if $n == 1; exit($n == 1)',
    fails  => 'print "ok 1\nnot ok 2 - right\n1..2\n"; exit 1',
    dies   => 'print "ok 1\n"; kill "ABRT", $$ if $n == 1; print "1..1\n"',
    found  => 'print "ok 1\n1..1\n"; if ($n == 1) { warn "==1==ERROR: '
              . 'AddressSanitizer: heap-use-after-free\n"; exit 1 }',
    hangs  => 'print "ok 1\n1..1\n"; exit 124 if $n == 1',
    skips  => 'print "1..0 # SKIP nothing to run\n"',
);

for my $name (keys %files) {
    write_file($name, "open my \$f, '>>', '$dir/$name.n'; print \$f 'x'; "
                      . "close \$f; my \$n = -s '$dir/$name.n'; "
                      . "$files{$name};\n");
}

my ($exit, $out) = run('passes', 'skips');
is($exit, 0, 'what passes');
like($out, qr/^2 passed, 0 failed, 2 skipped\n\z/m, 'is counted');
unlike($out, qr/once more/, 'and runs once');

($exit, $out) = run('passes', 'late');
is($exit, 0, 'what passes by itself');
like($out, qr/=== .*late\.t: exit 1.*not ok 1 - in time\n.*too late/s,
     'shows how it failed first');
like($out, qr/^once more, one at a time: \S*late\.t$/m, 'runs once more');
like($out, qr/^3 passed, 0 failed, 1 skipped\n\z/m, 'and is counted once');

($exit, $out) = run('fails', 'passes');
is($exit, 1, 'what fails twice');
is(runs('fails'), 2, 'after two runs');
like($out, qr/^3 passed, 1 failed, 1 skipped\n\z/m, 'has failed');

for my $name (qw/ dies found hangs /) {
    ($exit, $out) = run($name, 'passes');
    is($exit, 1, "what $name");
    is(runs($name), 1, "$name: there is no second run");
    like($out, qr/, 1 failed, 1 skipped\n\z/, "$name: has failed");
}

($exit, $out) = run('fails', 'late', { AGAIN => 1 });
is($exit, 1, 'more failures than are run again');
is(runs('late'), 1, 'have no second run');

done_testing();


sub run {
    my $env = ref $_[-1] ? pop : {};
    my @names = @_;

    unlink glob "$dir/*.n";
    local @ENV{keys %$env} = values %$env;

    my $said = join '', map { " $dir/$_.t" } @names;
    $said = `$^X t/run.pl$said 2>&1`;

    return ($? >> 8, $said);
}


sub runs { -s "$dir/$_[0].n" }


sub write_file {
    my ($name, $text) = @_;

    open my $f, '>', "$dir/$name.t" or die $!;
    print $f $text;
    close $f;
}
