package MistralProgram;

# The program "mistral" from the shell (t/tools*.t): run() runs it to its end
# in a directory of the test's own.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use Exporter qw/ import /;
use File::Temp qw/ tempdir /;
use POSIX ();
use Test::More;
use Time::HiRes qw/ time /;

our @EXPORT = qw/ run slurp spew $Build $Program $Model $Dir /;

our $Build = abs_path($ENV{BUILD} || 'build');
our $Program = "$Build/mistral";
our $Model = "$Build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
our $Dir = tempdir('mistral_tools.XXXXXX', TMPDIR => 1, CLEANUP => 1);

chmod 0755, $Dir;

ok(-x $Program, "$Program is there") or BAIL_OUT("make first");
ok(-r $Model, "$Model is there") or BAIL_OUT("make model first");


# run(ARG...) or run([ARG...], STDIN): code (or "signal N"), out, err, and
# time, in seconds

sub run {
    my ($args, $stdin) = ref $_[0] ? @_ : [@_];
    my $start = time;

    spew("$Dir/stdin", $stdin // '');

    my $pid = fork // die "fork: $!";

    if (!$pid) {
        open STDIN, '<', "$Dir/stdin" or POSIX::_exit(99);
        open STDOUT, '>', "$Dir/stdout" or POSIX::_exit(99);
        open STDERR, '>', "$Dir/stderr" or POSIX::_exit(99);
        alarm 300;
        exec { $Program } 'mistral', @$args or POSIX::_exit(99);
    }

    waitpid $pid, 0;

    return { code => $? & 127 ? 'signal ' . ($? & 127) : $? >> 8,
             out => slurp("$Dir/stdout"), err => slurp("$Dir/stderr"),
             time => time - $start };
}


# a file's bytes, at most $max

sub slurp {
    my ($path, $max) = @_;

    open my $fh, '<:raw', $path or die "$path: $!";
    local $/ = defined $max ? \$max : undef;
    return scalar <$fh> // '';
}


sub spew {
    my ($path, $data) = @_;

    open my $fh, '>:raw', $path or die "$path: $!";
    print $fh $data;
    close $fh or die "$path: $!";
}


1;
