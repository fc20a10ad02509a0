#!/usr/bin/perl

# Readers who do not read, and clients that leave.

use warnings;
use strict;

use lib 't/lib';

use IO::Socket::INET;
use MistralLife;
use Socket qw/ SOL_SOCKET SO_RCVBUF inet_aton pack_sockaddr_in /;
use Test::More;

my $Fox = 'The quick brown fox jumps over the lazy dog. ';
my $S = server();
my $Port = free_port();
time_out(170);

conf(http => <<'HTTP', server => <<"SERVER", locations => <<'PLACES');
    log_format  ends  '$arg_name $status $mistral_completion_tokens';

    mistral_model quick  { path null:; context 1000000; }
    mistral_model two    { path null:; context 1000000; max_batch 2; }
    mistral_model paced  { path null:rate=100; context 100000; }
HTTP
    listen           127.0.0.1:$Port sndbuf=8k;
    access_log       logs/ends ends;
    lingering_close  off;
SERVER
    location /pause/   { mistral_pass quick; mistral_slow_client pause; }
    location /buffer/  { mistral_pass quick; mistral_slow_client buffer=20k; }
    location /default/ { mistral_pass quick; }
    location /close/   { mistral_pass quick; mistral_slow_client close; }
    location /short/   { mistral_pass quick; mistral_slow_client pause; send_timeout 1s; }
    location /two/     { mistral_pass two; mistral_slow_client pause; }
    location /stay/    { mistral_pass paced; mistral_ignore_client_abort on; }
    location /leave/   { mistral_pass paced; mistral_ignore_client_abort off; }
    location /stuck/   { mistral_pass quick; mistral_ignore_client_abort on; send_timeout 1s; }
    location = /metrics { mistral_status prometheus; }
PLACES

run_nginx();
ok(ready(), 'ready');

stalled('pause');
stalled('buffer');
stalled('default');
places();
times_out();
closes();
stays();
stuck();

no_alerts('all of it');
stop_nginx();
nothing_left('the end');
done_testing();


# it stops to cost steps, others do not notice, and nothing of it is lost

sub stalled {
    my ($place) = @_;
    my $n = 200000;
    my $start = word('quick', 'completion_tokens');
    my $sock = slow($place, $n);

    waiting(sub { word('quick', 'paused') == 1 }, "$place: a pause");

    my $before = word('quick', 'completion_tokens');

    cmp_ok($before, '<', $start + $n, 'before its end');
    is(words(fetch("POST /$place/completions?name=other", body(5000))), 5000,
       'another goes on');
    is(word('quick', 'completion_tokens'), $before + 5000,
       'and is all that was computed');
    is(word('quick', 'running'), 1, 'the first is there yet');

    like((get('/metrics'))[2], qr/^mistral_scheduler_paused\{model="quick"} 1$/m,
         'as a metric');

    my $text = read_all($sock, 60);

    ok(said($text) eq fox($n), 'all of its text comes');
    like($text, qr/"finish_reason":"length".*\n\ndata: \[DONE\]\n\n/, 'and an end');
    is(word('quick', 'paused'), 0, 'it is no more');

    like(slurp("$S->{prefix}/logs/ends"), qr/^$place 200 $n$/m, 'counted');
}


# those who stall give their places and blocks to whoever waits

sub places {
    my @socks = map { slow('two', 100000) } 1, 2;

    waiting(sub { word('two', 'paused') == 2 }, 'both places stall');
    is(words(fetch("POST /two/completions?name=third", body(1000))), 1000,
       'a third is served');
    is(word('two', 'preemptions'), 1, 'in the place of one');

    ok(said(read_all($_, 60)) eq fox(100000), 'whose text is whole')
        for @socks;
}


# who reads nothing for send_timeout is gone, and so is his sequence

sub times_out {
    my $sock = slow('short', 200000);

    waiting(sub { word('quick', 'paused') == 1 }, 'a pause');
    waiting(sub { word('quick', 'running') == 0 }, 'that ends');
    is(word('quick', 'paused'), 0, 'nobody is paused');
    waiting(sub { slurp("$S->{prefix}/logs/ends") =~ /^short 408 [1-9]/m },
            'as a timeout');
}


# without a pause a megabyte may wait for a client, and no more

sub closes {
    my $sock = slow('close', 400000, ',"logprobs":1');
    my $paused = 0;

    waiting(sub { $paused += word('quick', 'paused');
                  slurp("$S->{prefix}/logs/ends") =~ /^close 408 [1-9]/m },
            'the client is dropped');
    is($paused, 0, 'without a pause');
    waiting(sub { word('quick', 'running') == 0 }, 'its sequence ends');
}


# an answer that nobody waits for any more is computed to its end, or not

sub stays {
    for my $stream (0, 1) {
        for my $place (qw/ stay leave /) {
            my $before = word('paced', 'completion_tokens');
            my $sock = ask("$place$stream", $place, 150,
                           $stream ? ',"stream":true' : '');

            waiting(sub { word('paced', 'completion_tokens')
                          > $before + 5 }, 'it is on its way');
            close $sock;
        }
    }

    waiting(sub { word('paced', 'running') == 0 }, 'all end');
    waiting(sub { ends(qr/(?:stay|leave)/) == 4 }, 'and are logged');

    like($_, qr/^(?:stay\d (?:200|499) 150|leave\d 499 (?:\d\d?|1[0-4]\d))$/, $_)
        for ends(qr/(?:stay|leave)/);

    my $m = (get('/metrics'))[2];
    my ($tokens) = $m =~ /^mistral_completion_tokens_total\{model="paced"} (\d+)/m;
    my $logged = 0;

    $logged += (split / /)[2] for ends(qr/(?:stay|leave)/);
    cmp_ok($logged, '<=', $tokens, 'what is logged was computed');
}


# nor does it matter that he does not read: after send_timeout he is gone

sub stuck {
    my $sock = slow('stuck', 300000);

    waiting(sub { word('quick', 'paused') == 1 }, 'a pause');
    waiting(sub { ends(qr/stuck/) == 1 }, 'that ends');
    like((ends(qr/stuck/))[0], qr/^stuck (?:408|499) 300000$/, 'with all of it');
    is(word('quick', 'paused'), 0, 'nobody is paused');
}


sub body {
    my ($n, $more) = @_;

    return qq({"prompt":"0123456789","max_tokens":$n) . ($more // '') . '}';
}

sub ask {
    my ($name, $place, $n, $more) = @_;

    return request("POST /$place/completions?name=$name", body($n, $more))
           // die 'no connection';
}


# a client with small buffers that reads nothing

sub slow {
    my ($place, $n, $more) = @_;
    my $body = body($n, ',"stream":true' . ($more // ''));
    my $sock = IO::Socket::INET->new(Proto => 'tcp') // die $!;

    setsockopt($sock, SOL_SOCKET, SO_RCVBUF, 4096) or die $!;
    connect($sock, pack_sockaddr_in($Port, inet_aton('127.0.0.1')))
        or die $!;

    print $sock "POST /$place/completions?name=$place HTTP/1.1\r\nHost: t\r\n",
                "Connection: close\r\nContent-Type: application/json\r\n",
                'Content-Length: ', length $body, "\r\n\r\n$body";
    return $sock;
}

sub fox { return substr $Fox x (1 + $_[0] / length $Fox), 0, $_[0] }

sub said { return join '', $_[0] =~ /"text":"([^"]*)"/g }

sub words { return $_[2] =~ /"completion_tokens":(\d+)/ ? $1 : "$_[0] $_[2]" }

sub word {
    my ($model, $name) = @_;
    my ($n) = (get('/status'))[2] =~ /"model":"$model",.*?"$name":(\d+)/s;

    return $n // -1;
}

sub ends {
    my ($name) = @_;

    return grep { /^$name/ } split /\n/, slurp("$S->{prefix}/logs/ends");
}

sub waiting {
    my ($what, $name) = @_;

    ok(wait_for($what), $name) or diag((get('/status'))[2]);
}
