#!/usr/bin/perl

# mistral_engine_wait when nginx ends, or begins anew, with requests held:
# t/wait.t has the rest.

use warnings;
use strict;

use IO::Select;
use Test::More;

use MistralLife;

time_out(90);
my $server = server();
my %conf = (workers => 1, model => 'path null:; engine_timeout 2s;',
            http => 'mistral_engine_wait 60s;',
            locations => 'location = /metrics { mistral_status prometheus; }');
my $super;

# worker_shutdown_timeout is shorter than the wait

conf(%conf, main => 'worker_shutdown_timeout 1s;');
run_nginx();
ok(ready(), 'ready');
away();

my @s = held(2);

signal('QUIT', master());
is(scalar(grep { m{^HTTP/1\.1 503 .*^Retry-After: .*^X-Mistral-Shed-Reason: draining\r\n.*"code":"shutting_down"}ms }
          map { read_all($_, 20) } @s),
   2, 'held requests are refused before they are cut');
signal('CONT', $super);
ok(wait_for(sub { !programs() && !alive(master()) }), 'nginx ends');

# at once

run_nginx();
ok(ready(), 'ready');
away();
@s = held(2);
signal('TERM', master());
is(join('', map { read_all($_, 20) } @s), '', 'a fast end closes connections');
signal('CONT', $super);
ok(wait_for(sub { !programs() && !alive(master()) }), 'nginx ends');

# without a master the same process goes on with other links

conf(%conf, main => 'master_process off;');
run_nginx();
ok(ready(), 'ready');
away();
@s = held(2);
mark();
signal('HUP', master());

SKIP: {
    my @got = map { read_all($_, 20) } @s;

    skip 'OpenResty ends at HUP without a master', 2
        if log_since() =~ /SIGHUP\) received from \d+, exiting/;

    is(scalar(grep { m{^HTTP/1\.1 503 .*"code":"engine_unavailable"}s } @got),
       2, 'held requests are refused');
    signal('CONT', $super);
    ok(ready(), 'the engine is found again');
    is(scalar(grep { (post(2))[0] == 200 } 1 .. 2), 2, 'and answers');
}

no_alerts('engines that were killed', qr/exited on signal 9|engine process|hung/);
stop_nginx('TERM');
nothing_left();
done_testing();


sub away {
    my $pid = engine();

    $super = parent($pid);
    signal('STOP', $super);
    signal('KILL', $pid);
    ok(wait_for(sub { (get('/healthz'))[0] == 503 }), 'the engine is away');
}


sub held {
    my ($n) = @_;
    my @all = map { request('POST /v1/chat/completions', chat(2)) } 1 .. $n;

    ok(wait_for(sub { (get('/metrics'))[2]
                      =~ /^mistral_engine_waiting\{model="m"\} $n$/m }),
       "$n requests are held");
    ok(!IO::Select->new(@all)->can_read(0), 'none has an answer');

    return @all;
}
