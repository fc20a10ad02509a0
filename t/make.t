#!/usr/bin/perl

# "make clean" ends the demo that runs from the folder it removes, and nobody
# else who has got the pid; "make stop" is quiet when nginx leaves meanwhile;
# "make help" has a line of each target of the file's head.

use warnings;
use strict;

use File::Temp qw/ tempdir /;
use Test::More;
use Time::HiRes qw/ sleep /;

delete @ENV{qw/ MAKEFLAGS MAKELEVEL MFLAGS /};

my $dir = tempdir(CLEANUP => 1);

for my $t ([ 'nginx', 3 ], [ 'other', 0 ]) {
    my ($name, $signal) = @$t;
    my $build = "$dir/$name";

    mkdir $_ for $build, "$build/demo";

    my $pid = fork // die $!;

    if ($pid == 0) {
        $0 = $name;
        write_file("$build/up", '');
        sleep 60;
        exit 0;
    }

    write_file("$build/demo/demo.pid", "$pid\n");
    sleep 0.02 while !-e "$build/up";

    # a zombie would still have its name: it is waited for meanwhile

    my $make = fork // die $!;

    if ($make == 0) {
        open STDOUT, '>', '/dev/null';
        exec 'make', '-s', 'clean', "BUILD=$build" or die $!;
    }

    if ($signal) {
        waitpid $pid, 0;
        is($? & 127, $signal, "$name: is ended");
    }

    waitpid $make, 0;
    is($?, 0, "$name: make clean succeeds");
    ok(!-e $build, "$name: the folder is gone");

    next if $signal;

    ok(kill(0, $pid), "$name: is left alone");
    kill 'KILL', $pid;
    waitpid $pid, 0;
}

# the file of the pid goes in the moment in which it is read

mkdir $_ for "$dir/stop", "$dir/stop/demo", "$dir/bin";
write_file("$dir/stop/demo/demo.pid", "$$\n");
write_file("$dir/bin/cat", qq{#!/bin/sh\nrm -f "\$1"\nexec /bin/cat "\$1"\n});
chmod 0755, "$dir/bin/cat" or die $!;

my $out = `PATH=$dir/bin:\$PATH make -s stop BUILD=$dir/stop 2>&1`;

is($?, 0, 'make stop succeeds while nginx leaves');
is($out, '', 'and says nothing');

my $help = `make -s help 2>&1`;

is($?, 0, 'make help succeeds');
like($help, qr/^make $_ /m, "and tells of make $_")
    for qw/ demo stop test help install /;
unlike($help, qr/^#|^BUILD *\?=/m, 'and of nothing else');

done_testing();


sub write_file {
    my ($path, $text) = @_;

    open my $fh, '>', $path or die "$path: $!";
    print $fh $text;
    close $fh;
}
