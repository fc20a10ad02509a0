#!/usr/bin/perl

# All tests through one harness: C units (cmocka prints TAP when asked), the
# same units under sanitizers, t/*.t, the Python clients, and once more under
# sanitizers what runs an nginx.  At the end stands all that failed programs
# said, and in the last line "N passed, N failed, N skipped": single
# assertions; a program that dies or prints nothing counts as one failure.
#
#     perl t/run.pl [FILE...]           default: everything
#
# One more runs at once than there are cores (JOBS=N), up to eight: most of
# them wait most of the time.  What takes longest begins first.  A few that
# failed then run once more, one at a time: what passes by itself had not got
# the cores it needs in time.  All of the first failure is shown, and only the
# second run counts; it is no second chance for what a sanitizer has found or
# a signal has ended, and there is none where many fail (AGAIN=N, 3).
#
# "san:FILE" is FILE with the build in $BUILD/san (make SAN=1 all) and an
# nginx that can load it.  LONG=1 adds t/clients-slow and what takes longest
# under sanitizers.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use File::Temp qw/ tempdir /;
use List::Util qw/ sum0 /;
use TAP::Harness;

use constant { LINES => 500, LIMIT => 900 };       # of a failure; seconds
use constant MOST => 8;                            # at once

my $build = $ENV{BUILD} || 'build';

# no nginx with our module in it, or one of their own

# (life_limits: of memory, of which the sanitizers want more)

my $plain = qr{/(?:bench|conf|cuda|docs|fuzz|life_limits|make|mistralai_test
                 |run|runner|style|systemd|tokenizer_test|tools_bench|tsan)
               \.(?:t|py)$}x;
my $long = $ENV{LONG} ? qr/^$/ : qr{/(?:tools|openai_test)\.};

$ENV{CMOCKA_MESSAGE_OUTPUT} = 'TAP';
$ENV{ASAN_OPTIONS} ||= 'detect_leaks=1:abort_on_error=0';
$ENV{UBSAN_OPTIONS} ||= 'print_stacktrace=1';
$ENV{TEST_NGINX_TIMEOUT} ||= 30;                    # of silence, seconds

my @tests = @ARGV ? @ARGV : (
    (glob "$build/t/*_test"),
    (glob "$build/san/t/*_test"),
    (glob 't/*.t'),
    (map { "san:$_" } grep { !/$plain|$long/ }
                          glob 't/*.t t/clients/*_test.py'),
    (glob 't/clients/*_test.py'),
    $ENV{LONG} ? (glob 't/clients-slow/*_test.py') : (),
);

my $slow = qr{^$build/san/t/mst_(?:engine_model|forward(?:_real)?)_test$
              |^san:t/(?:directives(?:_location)?|life_long)\.t$
              |^t/(?:fuzz|tsan)\.t$}x;

@tests = ((grep { /$slow/ } @tests), (grep { !/$slow/ } @tests));

my ($cores) = `nproc` =~ /(\d+)/;
my $jobs = $ENV{JOBS} || ($cores // 1) + 1;

my $dir = tempdir(CLEANUP => 1);
my %said;                               # by the name of a test, lines

my %result = run($jobs < MOST ? $jobs : MOST, @tests);
my @bad = grep { $result{$_}{failed} } @tests;

if (@bad && @bad <= ($ENV{AGAIN} // 3) && !grep { $result{$_}{found} } @bad) {
    print "\nonce more, one at a time: @bad\n";
    %result = (%result, run(1, @bad));
}

my %sum = map {
    my $what = $_;
    $what => sum0(map { $_->{$what} } values %result);
} qw/ passed failed skipped /;

print "$sum{passed} passed, $sum{failed} failed, $sum{skipped} skipped\n";

exit($sum{failed} ? 1 : 0);


# what each program said, counted, and the reports of those that failed

sub run {
    my ($n, @names) = @_;

    my $harness = TAP::Harness->new({
        timer => 1,
        merge => 1,
        jobs  => $n,
        exec  => sub { command($_[1]) },
    });

    $harness->callback(made_parser => sub {
        my ($parser, $job) = @_;
        my $lines = $said{ $job->[1] } = [];

        $parser->callback(ALL => sub { push @$lines, $_[0]->raw });
    });

    my $all = $harness->runtests(@names);

    return map { $_ => result($_, $all->parsers($_)) } $all->descriptions;
}


sub result {
    my ($name, $parser) = @_;

    # cmocka prints a skipped test as "not ok ... # SKIP"

    my %skip = map { $_ => 1 } $parser->skipped;
    my $r = { passed => scalar(grep { !$skip{$_} } $parser->passed),
              failed => scalar(grep { !$skip{$_} } $parser->failed),
              skipped => scalar(keys %skip) };

    # a program that ended badly though its assertions passed

    $r->{failed} = 1 if !$r->{failed} && ($parser->exit || $parser->wait
                                          || $parser->parse_errors);

    # a whole file that skips itself

    $r->{skipped}++ if length($parser->skip_all // '');

    $r->{found} = report($name, $parser) if $r->{failed};

    return $r;
}


# stderr goes into a file, so that a piece of a line there breaks none here;
# "merge" above, as a pipe for it that ends at once would be taken for one
# with something to read, and the harness would wait for that program alone

sub command {
    my ($name) = @_;
    my ($san, $file) = $name =~ /^(san:)?(.*)/;
    my $python = $ENV{PYTHON}
                 || "$build/venv" . ($file =~ /clients-slow/ ? '-slow' : '')
                    . '/bin/python';

    my @command = $file =~ /\.t$/ ? ($^X, '-It/lib', $file)
                : $file =~ /\.py$/ ? ($python, $file) : $file;

    unshift @command, 'env', "BUILD=$build/san", 'TEST_NGINX_BINARY='
                      . abs_path($build) . '/san/sbin/nginx' if $san;

    return [ 'sh', '-c', 'exec timeout -k 10 "$0" "$@" 2>"$SAID"' =~
             s/\$SAID/stderr_of($name)/er, LIMIT, @command ];
}


sub stderr_of { "$dir/" . $_[0] =~ tr{/}{_}r }


# true for what no second run excuses; from 124 on the exit is a hang or a signal

sub report {
    my ($name, $parser) = @_;
    my @lines = grep { !/^ok / } @{ $said{$name} // [] };

    if (open my $in, '<', stderr_of($name)) {
        push @lines, <$in>;
    }

    chomp @lines;

    my $found = ($parser->exit // 0) >= 124 || (($parser->wait // 0) & 127)
                || grep { /Sanitizer: |: runtime error: |: deadly signal/ }
                        @lines;

    if (@lines > LINES) {
        splice @lines, LINES / 2, @lines - LINES,
               '... ' . (@lines - LINES) . ' lines ...';
    }

    print "\n=== $name: exit ", $parser->exit // '?', ', ',
          join('; ', 'status ' . ($parser->wait // '?'),
               $parser->parse_errors), "\n",
          map { "$_\n" } @lines;

    return $found;
}
