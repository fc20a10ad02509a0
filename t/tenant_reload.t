#!/usr/bin/perl

# The key of the salts is the server's: a tenant finds its part of the prefix
# cache from each worker, after a reload, after a worker was killed.

use warnings;
use strict;

use lib 't/lib';

use MistralLife;
use Test::More;

my $S = server();
time_out(120);

conf(http => 'mistral_cache_salt $arg_tenant;'
             . 'add_header X-Worker $pid;');
run_nginx();
ok(ready(), 'ready');

is(scalar cached('a'), 0, 'new to the tenant');
is(scalar cached('a'), 112, 'known to it');
is(scalar cached('b'), 0, 'new to another');

my $engine = engine();
my %by;

for (1 .. 500) {
    my ($n, $pid) = cached('a');

    $by{$pid} //= $n;
    last if keys %by == 2;
}

is($by{$_}, 112, "known in worker $_") for sort keys %by;

ok(reload(), 'reload');
is(engine(), $engine, 'the same engine');
is(scalar cached('a'), 112, 'known after a reload');
is(scalar cached('c'), 0, 'new to a third');

my ($worker) = workers();
kill 'KILL', $worker;
ok(wait_for(sub { workers() == 2 && !grep { $_ == $worker } workers() }),
   'another worker');
is(scalar cached('a'), 112, 'known after a crash');
is(scalar cached('b'), 112, 'and to the other');
is(scalar cached('d'), 0, 'new to a fourth');

stop_nginx();
nothing_left();
done_testing();


sub cached {
    my ($tenant) = @_;
    my ($status, $head, $body) =
        fetch("POST /v1/chat/completions?tenant=$tenant",
              chat(1, 0, 'x' x 100));
    my ($n) = $body =~ /"cached_tokens":(\d+)/;
    my ($pid) = $head =~ /^X-Worker: (\d+)/m;

    return wantarray ? ($n, $pid) : $n;
}
