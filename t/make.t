#!/usr/bin/perl

# "make clean" ends the demo that runs from the folder it removes, and nobody
# else who has got the pid.

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

done_testing();


sub write_file {
    my ($path, $text) = @_;

    open my $fh, '>', $path or die "$path: $!";
    print $fh $text;
    close $fh;
}
