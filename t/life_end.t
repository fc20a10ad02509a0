#!/usr/bin/perl

# The ends: every signal in every mode, and nothing is left.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
time_out(160);

my (@all, $engine, $supervisor, $s, $old);

# quit completes what runs

conf();
run_nginx();
ok(ready(), 'ready');

$s = stream(60);
$old = master();
@all = (programs(), $old, children());
is(nginx('-s', 'quit'), 0, 'quit');
is(finish($s), text(60), 'completes its streams');
ok(gone(@all), 'then nothing is left');
is_deeply([ programs() ], [], 'no engine');

for my $mode ([ 'TERM', '' ], [ 'KILL', '' ], [ 'QUIT', 'daemon off;' ],
              [ 'QUIT', 'daemon off; master_process off;' ],
              [ 'TERM', 'master_process off;' ])
{
    my ($sig, $main) = @$mode;

    conf(main => $main);

    my $pid = run_nginx($main =~ /daemon off/);
    ok(ready(), "start with \"$main\"");
    is(answer(10), text(10), 'answers');

    @all = (programs(), master(), children());
    is(scalar(programs()), 2, 'one supervisor, one engine');

    if ($sig eq 'KILL') {
        my @workers = workers();

        signal 'KILL', master();
        sleep 0.5;
        is(answer(10), text(10),
           'without their master workers and engine go on');
        signal 'TERM', @workers;

    } else {
        signal $sig, master();
    }

    waitpid $pid, 0 if $pid;
    ok(gone(@all), "nothing is left after $sig");
}

# what a killed supervisor was replaced by ends with nginx, too, even if it
# stands still

for my $stop (0, 1) {
    conf();
    run_nginx(0);
    ok(ready(), 'start');
    $supervisor = another_supervisor(parent($engine = engine()));
    ok($supervisor, 'kill -9 of the supervisor: there is another one');
    signal 'STOP', $supervisor if $stop;
    @all = ($engine, master(), children());
    is(nginx('-s', 'quit'), 0, 'quit');
    ok(gone(@all), 'nginx and engine leave');
    signal 'CONT', $supervisor;
    ok(gone($supervisor), 'the new supervisor, too');
    is_deeply([ programs() ], [], 'nothing is left');
}

# a master killed while its workers still have the engine, then a reload
# without a master: it must not crash

conf(main => 'master_process off;');
run_nginx(0);
ok(ready(), 'start without a master');
@all = (programs(), master());
mark();
signal 'HUP', master();
sleep 0.5;

SKIP: {
    skip 'OpenResty ends at HUP without a master', 1
        if log_since() =~ /SIGHUP\) received from \d+, exiting/;

    ok(alive(master()), 'a reload without a master does not crash');
    signal 'TERM', master();
}

ok(gone(@all), 'nothing is left');

nothing_left();
done_testing();
