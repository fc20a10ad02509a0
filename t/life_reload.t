#!/usr/bin/perl

# Reloads that change nothing: 50 of them, and a stream over all.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;

my $S = server();
time_out(150);

conf();
run_nginx();
ok(ready(), 'ready');

my ($engine, $supervisor) = (engine(), supervisor());

my $s = stream(150);
my $fds = fds(master());
my $memory = field(master(), 'VmRSS');

my $long = stream(400);

for my $i (1 .. 50) {
    ok(reload_fast(), "reload $i");
    ok(alive($engine), 'the engine is the same');
    is(answer(1), text(1), 'new workers have it') if $i % 10 == 0;
}

is(finish($s), text(150), 'the stream is complete');
ok($s->{buf} =~ /data: \[DONE\]/, 'with its end');
is(finish($long), text(400), 'and one over all of them');
ok($long->{buf} =~ /data: \[DONE\]/, 'with its end');
is(engine(), $engine, 'by the same engine');
is(status('restarts'), 0, 'which was never restarted');
is(scalar(programs()), 2, 'two processes as before');
ok(wait_for(sub { !grep { cmdline($_) =~ /shutting down/ } children() }),
   'old workers leave');
ok(wait_for(sub { fds(master()) == $fds }),
   'the master has as many descriptors as before');

SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if sanitized();

    cmp_ok(field(master(), 'VmRSS') =~ s/ .*//r, '<',
           ($memory =~ s/ .*//r) + 4096, 'and no more memory');
}

no_alerts('reloads');

stop_nginx();
nothing_left();
done_testing();


# as soon as there are other workers: old ones with a stream stay

sub reload_fast {
    my %old = map { $_ => 1 } workers();

    signal 'HUP', master();

    return wait_for(sub { 2 == grep { !$old{$_} } workers() });
}
