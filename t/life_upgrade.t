#!/usr/bin/perl

# A new binary (USR2) goes on with the engines of the old one.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use POSIX ();
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

signal 'USR2', $old;
ok(another_master($old), 'USR2: a new master');
ok(wait_for(sub { workers() == 2 }), 'with workers');
is(scalar(programs()), 2, 'with the same engine');
signal 'WINCH', $old;
sleep 0.5;
is(engine(), $engine, 'also when the old workers leave');
is(answer(4), text(4), 'new workers have it');
signal 'QUIT', $old;
is(finish($s), text(150), 'a stream over it is complete');
ok(gone($old), 'the old master leaves');
is(engine(), $engine, 'the engine stays');
ok(reload(), 'reload of the new master');
sleep 0.5;
is(engine(), $engine, 'keeps the engine');
no_alerts('USR2');

# under load: whoever comes has an answer, and it is the whole one

my @clients = map { client($_) } 1 .. 4;

for my $n (1 .. 3) {
    $old = master();
    signal 'USR2', $old;
    ok(another_master($old) && wait_for(sub { workers() == 2 }),
       "USR2 under load, $n");
    signal 'QUIT', $old;
    ok(gone($old), 'the old master leaves');
}

write_file("$S->{prefix}/stop", '');

for my $c (@clients) {
    my @said = readline $c;
    chomp @said;
    like(shift @said, qr/^[1-9]\d* answers$/, 'a client had answers');
    is_deeply(\@said, [], 'and none of them was wrong');
}

is(engine(), $engine, 'of the same engine');
no_alerts('USR2 under load');

# a new binary with another engine

$engine = engine();
$supervisor = parent($engine);
$old = master();
$s = stream(100);
conf(model => 'path null:text=closed/answer,rate=100;');

signal 'USR2', $old;
ok(another_master($old) && wait_for(sub { programs() == 4 }),
   'USR2 with a changed engine: there are two');
signal 'QUIT', $old;
is(finish($s), text(100), 'the old stream completes');
ok(gone($old, $engine, $supervisor), 'the old engine leaves with its master');
ok(ready() && engine() != $engine, 'the new one stays');
is(answer(4), text(4), 'and answers');
no_alerts('USR2 with a changed engine');

# a new binary that is given up: workers that the old master starts again have
# the engine, also one that died meanwhile

$engine = engine();
$supervisor = supervisor();
$old = master();

signal 'USR2', $old;
my $new = another_master($old);
ok($new, 'USR2 once more');
my @before = workers($old);

signal 'WINCH', $old;
ok(gone(@before), 'the old workers leave');
signal 'STOP', $supervisor;
signal 'KILL', $engine, $supervisor;
ok(wait_for(sub { my $e = engine(); $e > 0 && $e != $engine && ready(0.1) }),
   'engine and supervisor are killed and come back');
$engine = engine();

signal 'HUP', $old;
ok(wait_for(sub { workers($old) == 2 }), 'the old master starts workers');
signal 'QUIT', $new;
ok(gone($new), 'the new one leaves');
ok(wait_for(sub { master() == $old }), 'the old one has its pid file back');
is(engine(), $engine, 'they have the same engine');
ok(!(grep { answer(4) ne text(4) } 1 .. 8), 'and answer');
is(scalar(programs()), 2, 'one supervisor, one engine');
ok(reload(), 'a reload of the old master');
is(engine(), $engine, 'keeps it');
no_alerts('USR2 given up');

stop_nginx();
nothing_left();
done_testing();


# asks until there is a file "stop", whole answers and streams in turn; what it
# says then is its number of answers and whatever was wrong

sub client {
    my ($n) = @_;
    my ($count, $parent, @wrong) = (0, $$);

    pipe my $in, my $out or die "pipe: $!";
    my $pid = fork // die "fork: $!";

    if ($pid) {
        return $in;
    }

    until (-e "$S->{prefix}/stop" || getppid() != $parent) {
        my $got = eval { $n++ % 2 ? answer(8) : finish(stream(12)) };
        my $want = text($n % 2 ? 12 : 8);

        $count++;
        push @wrong, $got // $@ if !defined $got || $got ne $want;
    }

    print $out "$count answers\n", map { s/\n/ /gr . "\n" } @wrong;
    close $out;
    POSIX::_exit(0);
}
