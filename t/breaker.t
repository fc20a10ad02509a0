#!/usr/bin/perl

# mistral_breaker with engines that are killed and stopped: what opens it and
# what does not, who gets through when it is half-open, and that it outlasts
# workers and reloads.  A canary and a fallback in the same weather.

use warnings;
use strict;

use IO::Socket::INET;
use Test::More;
use Time::HiRes qw/ sleep time /;

use MistralLife;

time_out(200);

my $server = server();

my %model = (
    m    => 'path null:rate=50; max_batch 128;',
    last => 'path null:rate=50; engine_timeout 2s;',
    one  => 'path null:; engine_timeout 60s;',
    two  => 'path null:; engine_timeout 60s;',
    spare => 'path null:;',
);

# "m" stays open for good; "one" and "two" recover

my $locations = <<'END';
location /last/ { mistral_pass last; mistral_breaker errors=1 window=10m open=1s probes=1; }
location /one/ { mistral_pass one; mistral_breaker errors=1 open=3s probes=2; }
location /two/ { mistral_pass two; mistral_breaker errors=1 open=1s probes=1; }
location /fall/ { mistral_pass m; mistral_fallback spare on=breaker; }
location /engine/ { mistral_pass m; mistral_breaker off; mistral_fallback spare on=engine; }
location /remote/ { mistral_pass m; error_page 503 = @remote; }
location @remote { rewrite ^ /other/completions break; proxy_pass http://127.0.0.1:$server_port; }
location /other/ { mistral_pass spare; }
location /canary/ { mistral_pass spare; mistral_canary m 100%; }
location /control/ { mistral_control; }
location = /metrics { mistral_status prometheus; }
END

my $breaker = 'mistral_breaker errors=5 window=10m open=10m probes=2;';

configure();
run_nginx();
ok(ready(), 'ready');

# clients that leave are no faults; one engine's death is as many as it had
# answers in work

my @s = map { stream(3000) } 1 .. 8;
close $_->{sock} for @s;
ok(wait_for(sub { model('m', 'running') == 0 }), '8 clients left');
is(breaker('m'), 'closed', 'which says nothing about the engine');

@s = map { stream(3000) } 1 .. 4;
crash('m');
finish($_) for @s;
is(breaker('m'), 'closed', '4 faults of 5');
ok(wait_for(sub { (post_to('v1'))[0] == 200 }), 'it answers again');

is((post_to('v1', 'x' x 40000))[0], 400, 'a prompt that is too long');
is(breaker('m'), 'closed', 'is no fault');

# 64 at once, on two workers

mark();
@s = map { stream(3000) } 1 .. 64;
crash('m');

like(finish_all($_), qr/"code":"engine_unavailable"(?!.*\[DONE\])/s, 'cut')
    for @s[0 .. 2];
finish($_) for @s[3 .. $#s];

is(breaker('m'), 'open', '64 faults');
is(scalar(() = log_since() =~ /breaker of model "m" is open for 600000 ms/g),
   1, 'said once');

my ($status, $head, $body) = post_to('v1');

is($status, 503, 'nobody is let through');
like($head, qr/^X-Mistral-Shed-Reason: breaker\r$/m, 'with the reason');

my ($retry) = $head =~ /^Retry-After: (\d+)\r$/m;

cmp_ok($retry, '>', 500, 'and the time that is left');
cmp_ok($retry, '<=', 600, 'of 10 minutes');
like($body, qr/^\{"error":\{"message":"The model has failed repeatedly, try again in \d+ s.","type":"server_error","param":null,"code":"breaker"\}\}$/,
     'in the form of the API');

# before the body is read: it is never asked for

my $sock = IO::Socket::INET->new(PeerAddr => '127.0.0.1:' . port());

print $sock "POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\n",
            "Expect: 100-continue\r\nContent-Length: 30000\r\n\r\n";
like(read_head($sock), qr{\AHTTP/1\.1 503 }, 'before the body is read');

like((post_to('fall'))[1], qr/^X-Mistral-Model: spare\r$/m, 'a fallback');

my $long = 'x' x 30000;

like((fetch('POST /remote/completions',
            qq({"prompt":"$long","max_tokens":2})))[2],
     qr/"prompt_tokens":30000,/, 'an upstream, which gets the whole body');
like((post_to('canary'))[1], qr/^X-Mistral-Model: spare\r$/m,
     'a canary leaves its requests to the stable model');
ok(wait_for(sub { (post_to('engine'))[1] =~ /^X-Mistral-Model: m\r$/m }),
   'a location without a breaker goes on');

($status, $head, $body) = get('/healthz');
is($status, 503, 'not ready');
like($body, qr/"status":"breaker_open".*"breaker":"open","model":"m"/,
     'for the breaker');
like((get('/metrics'))[2], qr/^mistral_breaker_state\{model="m"\} 2$/m,
     'in the metrics');
like((get('/metrics'))[2],
     qr/^mistral_shed_total\{model="m",reason="breaker"\} 3$/m,
     'those that were shed');

# it is in shared memory

ok(reload(), 'a reload');
is(breaker('m'), 'open', 'does not close it');

my @old = workers();

kill 'KILL', @old;
ok(wait_for(sub { my %o = map { $_ => 1 } @old;
                  2 == grep { !$o{$_} } workers() }), 'new workers');
is(breaker('m'), 'open', 'do not close it');

$model{m} = 'path null:rate=50; max_batch 127;';
configure();
ok(reload(), 'another engine');
ok(wait_for(sub { (post_to('v1'))[0] == 200 }), 'begins with a closed one');
is(breaker('m'), 'closed', 'of its own');

# an engine that hangs

my $stopped = model('last', 'engine_pid');
my $super = parent($stopped);
my $held = stream_of('POST /last/chat/completions', body(3000, 1));

kill 'STOP', $super, $stopped;
finish($held);
ok(wait_for(sub { breaker('last') ne 'closed' }), 'a stalled step is a fault');
kill 'CONT', $stopped, $super;
ok(wait_for(sub { (post_to('last'))[0] == 200 }), 'and one day it is over');
is(breaker('last'), 'closed', 'closed again');

# half-open: its two probes, and no one else, while the engine stands still

open_it('one');
ok(wait_for(sub { breaker('one') eq 'half_open' }), 'half-open');

my $began = time;

freeze('one', sub {
    my @clients = map { request('POST /one/chat/completions', body(2)) }
                  1 .. 16;

    ok(wait_for(sub { model('one', 'queue_places') == 2 }), 'two are let in');
    is((post_to('one'))[0], 503, 'no third one');
    is(breaker('one'), 'half_open', 'until they have an answer');

    thaw('one');

    my @got = map { read_all($_, 20) =~ m{^HTTP/1\.1 (\d+)}; $1 } @clients;

    SKIP: {
        skip 'this machine is too slow', 2 if time - $began > 2.5;

        is(scalar(grep { $_ == 200 } @got), 2, 'two answers');
        is(scalar(grep { $_ == 503 } @got), 14, '14 are refused');
    }
});

ok(wait_for(sub { breaker('one') eq 'closed' }), 'which close it');
like(log_text(), qr/breaker of model "one" is closed/, 'as the log says');

# a probe whose worker dies is not waited for

open_it('two');
ok(wait_for(sub { breaker('two') eq 'half_open' }), 'half-open');

freeze('two', sub {
    my $probe = request('POST /two/chat/completions', body(2));

    ok(wait_for(sub { model('two', 'queue_places') == 1 }), 'a probe');
    @old = workers();
    kill 'KILL', @old;
    ok(wait_for(sub { my %o = map { $_ => 1 } @old;
                      2 == grep { !$o{$_} } workers() }), 'new workers');
    thaw('two');
    ok(wait_for(sub { (post_to('two'))[0] == 200 }), 'another gets its turn');
    ok(wait_for(sub { breaker('two') eq 'closed' }), 'and closes it');
});

# one that fails opens it again

open_it('two');
ok(wait_for(sub { breaker('two') eq 'half_open' }), 'half-open');
mark();
open_it('two');
like(log_since(), qr/breaker of model "two" is open/, 'a probe that fails');

# clients of all kinds while the engine is killed again and again: what they
# get is an answer or a refusal, and in the end all is well

my @kinds = map { fork_client($_) } 1 .. 8;

for (1 .. 6) {
    my $pid = model('two', 'engine_pid');

    kill 'KILL', $pid if $pid > 1;
    sleep 0.3;
}

for my $pid (@kinds) {
    waitpid $pid, 0;
    is($?, 0, 'a client with answers and refusals only');
}

ok(wait_for(sub { (post_to('two'))[0] == 200 }), 'it answers');
ok(wait_for(sub { breaker('two') eq 'closed' }), 'closed');
ok(wait_for(sub { model('two', 'queue_places') == 0 }), 'no place is lost');

# who knows better

open_it('two');
is((fetch('POST /control/resume?model=two', ''))[0], 200, 'an order');
is(breaker('two'), 'closed', 'closes it at once');
is((post_to('two'))[0], 200, 'for everybody');

no_alerts('killed engines', qr/exited on signal 9|hangs|engine process/);
stop_nginx();
nothing_left();
done_testing();


sub configure {
    conf(workers => 2, model => $model{m}, locations => $locations,
         server => $breaker,
         http => join '', map { "mistral_model $_ { $model{$_} }\n" }
                          grep { $_ ne 'm' } sort keys %model);
}


sub body { return chat(@_) =~ s/"model":"m",//r }


# (status, head, body)

sub post_to {
    my ($where, $prompt) = @_;

    return fetch("POST /$where/chat/completions", body(2, 0, $prompt));
}


sub model {
    my ($name, $field) = @_;
    my ($value) = (get('/status'))[2]
                  =~ /"model":"$name",.*?"$field":"?([^",]*)/s;

    return $value // -1;
}

sub breaker { return model($_[0], 'breaker') }


# the next engine is there when this returns

sub crash {
    my ($name) = @_;
    my $pid = model($name, 'engine_pid');

    kill 'KILL', $pid;
    ok(wait_for(sub { my $new = model($name, 'engine_pid');
                      $new > 1 && $new != $pid
                      && model($name, 'state') eq 'ready' }),
       "another engine of $name");
}


# its engine dies with one answer in work

sub open_it {
    my ($name) = @_;

    freeze($name, sub {
        my $sock;

        # a refusal while the engine comes back, or a late turn

        ok(wait_for(sub {
            $sock = request("POST /$name/chat/completions", body(2));
            wait_for(sub { model($name, 'queue_places') == 1
                           || IO::Select->new($sock)->can_read(0) }, 5);
            return model($name, 'queue_places') == 1;
        }), "a request of $name");

        crash($name);
        like(read_all($sock, 20), qr{^HTTP/1\.1 503.*engine_unavailable}s,
             'which fails');
    });

    isnt(breaker($name), 'closed', 'not closed any more');
}


# an engine that computes nothing, and that its supervisor does not mind

sub freeze {
    my ($name, $then) = @_;
    my $pid = model($name, 'engine_pid');

    kill 'STOP', $pid;
    $then->();
    kill 'CONT', $pid;
}

sub thaw { kill 'CONT', model($_[0], 'engine_pid') }


sub finish_all {
    my ($s) = @_;

    finish($s);

    return $s->{buf};
}


sub port { return $server->{port} }


sub read_head {
    my ($sock) = @_;
    my $s = { sock => $sock, buf => '' };

    wait_for(sub { read_some($s, 0.1); $s->{buf} =~ /\r\n\r\n/ });
    close $sock;

    return $s->{buf};
}


sub fork_client {
    my ($n) = @_;
    my $pid = fork // die $!;

    return $pid if $pid;

    for my $i (1 .. 30) {
        my $sock = request('POST /two/chat/completions',
                           body(20, ($n + $i) % 2));
        my $got = read_all($sock, 20);

        next if $got =~ m{^HTTP/1\.1 503.*"code":"(breaker|engine_unavailable|loading)"}s;
        next if $got =~ m{^HTTP/1\.1 200.*("finish_reason":"length"|engine_unavailable)}s;

        warn "client $n: $got\n";
        POSIX::_exit(1);
    }

    POSIX::_exit(0);
}
