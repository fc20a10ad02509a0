#!/usr/bin/perl

# A new binary (USR2) goes on with the engines of the old one.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
time_out(120);

conf();
run_nginx();
ok(ready(), 'ready');

my ($engine, $supervisor, $old, $s);

# a new binary

$engine = engine();
$supervisor = parent($engine);

$old = master();
$s = stream(150);

kill 'USR2', $old;
ok(wait_for(sub { -e "$S->{pid}.oldbin" && master() != $old }),
   'USR2: a new master');
sleep 0.5;
is(scalar(programs()), 2, 'with the same engine');
kill 'WINCH', $old;
sleep 0.5;
is(engine(), $engine, 'also when the old workers leave');
is(answer(4), text(4), 'new workers have it');
kill 'QUIT', $old;
is(finish($s), text(150), 'a stream over it is complete');
ok(gone($old), 'the old master leaves');
is(engine(), $engine, 'the engine stays');
ok(reload(), 'reload of the new master');
sleep 0.5;
is(engine(), $engine, 'keeps the engine');
no_alerts('USR2');

# a new binary with another engine

$engine = engine();
$supervisor = parent($engine);
$old = master();
$s = stream(100);
conf(model => 'path null:text=closed/answer,rate=100;');

kill 'USR2', $old;
ok(wait_for(sub { -e "$S->{pid}.oldbin" && master() != $old
                  && programs() == 4 }),
   'USR2 with a changed engine: there are two');
kill 'QUIT', $old;
is(finish($s), text(100), 'the old stream completes');
ok(gone($old, $engine, $supervisor), 'the old engine leaves with its master');
ok(ready() && engine() != $engine, 'the new one stays');
is(answer(4), text(4), 'and answers');
no_alerts('USR2 with a changed engine');

stop_nginx();
nothing_left();
done_testing();
