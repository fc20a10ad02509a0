#!/usr/bin/perl

# mistral engine in the foreground, without nginx: loads, says so, ends on a
# signal with everything it started, and refuses what it cannot run.

use warnings;
use strict;

use IPC::Open3;
use Symbol qw/ gensym /;
use Test::More;

my $build = $ENV{BUILD} || 'build';
my $mistral = "$build/mistral";
my $model = "$build/models/SmolLM2-135M-Instruct.Q4_1.gguf";

my ($pid, $err) = start('--model', $model, '--threads', 1,
                        '--context', 512);

my $log = read_until($err, qr/ready: .*\n/);

like($log, qr/ready: \Q$model\E on .*context 512, max_batch 16/, 'it loads');

my ($engine) = $log =~ /engine (\d+): ready/;
my $supervisor = parent($engine);

is(kill(TERM => $pid), 1, 'it is there until a signal');
waitpid $pid, 0;
is($?, 0, 'the signal ends it with exit code 0');

ok(gone($engine) && gone($supervisor), 'nothing is left');

($pid, $err) = start('--model', '/nonexistent');
$log = read_until($err, qr/\n/);
waitpid $pid, 0;

like($log, qr{^mistral engine: /nonexistent: No such file}, 'no such file');
is($? >> 8, 78, 'its exit code');

($pid, $err) = start('--model', 'Makefile');
$log = read_until($err, qr/exited with code 78.*\n/);
kill TERM => $pid;
waitpid $pid, 0;

like($log, qr/Makefile: no GGUF file/, 'no model: one sentence');

# kernels of an older machine

{
    local $ENV{MISTRAL_ISA} = 'c';

    ($pid, $err) = start('--model', $model, '--threads', 1, '--context', 512);
    $log = read_until($err, qr/ready: .*\n/);
    like($log, qr/cpu: c, 1 threads/, 'MISTRAL_ISA');
    kill TERM => $pid;
    waitpid $pid, 0;

    $ENV{MISTRAL_ISA} = 'z80';

    ($pid, $err) = start('--model', $model, '--threads', 1, '--context', 512);
    $log = read_until($err, qr/exited with code 78.*\n/);
    kill TERM => $pid;
    waitpid $pid, 0;
    like($log, qr/"z80" is not in this build/, 'no such kernels: one sentence');
}

done_testing();


sub start {
    my $out = gensym;
    my $child = open3(my $in, '>&STDOUT', $out, $mistral, 'engine', @_);

    close $in;
    return ($child, $out);
}


sub read_until {
    my ($fh, $re) = @_;
    my $all = '';

    local $SIG{ALRM} = sub { die "timeout: $all" };
    alarm 60;

    while ($all !~ $re && sysread($fh, my $more, 4096)) {
        $all .= $more;
    }

    alarm 0;
    return $all;
}


sub parent {
    my ($child) = @_;

    open my $fh, '<', "/proc/$child/status" or return 0;
    my ($ppid) = join('', <$fh>) =~ /^PPid:\s+(\d+)/m;
    return $ppid;
}


# a zombie whose parent has not looked yet is gone

sub gone {
    my ($other) = @_;

    for (1 .. 50) {
        open my $fh, '<', "/proc/$other/stat" or return 1;
        return 1 if (<$fh> // '') =~ /\) [ZX] /;
        select undef, undef, undef, 0.1;
    }

    return 0;
}
