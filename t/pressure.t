#!/usr/bin/perl

# Crowds: who is served first, who keeps his memory, who is turned away.
# With the null model, whose times are its own; the order is read from the
# access log, which is written at the answer's end unless a client lingers.

use warnings;
use strict;

use lib 't/lib';

use MistralLife;
use Test::More;

my $S = server();
my $asked = 0;
time_out(170);

# "pool" has places for 80, and blocks for 40 answers that fill the context

conf(http => <<'HTTP', locations => <<'PLACES', server => 'access_log logs/order order; lingering_close off;');
    log_format  order  '$arg_name $status $mistral_completion_tokens $mistral_shed_reason';

    mistral_model pool   { path null:rate=4000; context 8192; max_batch 80; }
    mistral_model one    { path null:rate=100; max_batch 1; }
    mistral_model two    { path null:rate=50; max_batch 2; }
    mistral_model brisk  { path null:rate=20; max_batch 1; }
HTTP
    location /pool/    { mistral_pass pool; mistral_queue 0; mistral_kv_reserve full; }
    location /one/     { mistral_pass one; mistral_priority $arg_p; mistral_fair $arg_key; }
    location /vip/     { mistral_pass one; mistral_priority 5 preempt; }
    location /two/     { mistral_pass two; mistral_queue 5; }
    location /low/     { mistral_pass two; mistral_queue 5; mistral_priority -2; }
    location /brisk/   { mistral_pass brisk; mistral_queue 8; }
    location /dated/   { mistral_pass brisk; mistral_queue 20; mistral_deadline ttft=3s; }
    location /late/    { mistral_pass brisk; mistral_queue 20; mistral_deadline ttft=200ms; }
    location = /metrics { mistral_status prometheus; }
PLACES

run_nginx();
ok(ready(), 'ready');

memory();
order();
preempt();
yield();
retry_after();
deadline();
counters();

no_alerts('all of it');
stop_nginx();
nothing_left('the end');
done_testing();


# a burst of 200 into a pool for 40: what starts is never preempted

sub memory {
    my @socks = map { ask('/pool', 8182, "name=$_") } 1 .. 200;
    my ($most, %status, %reason) = (0);

    waiting(sub {
        my $n = word('pool', 'running');
        $most = $n if $n > $most;
        return $n == 0 && word('pool', 'queue_places') == 0;
    }, 60);

    for (@socks) {
        my ($status, $head, $body) = result($_);

        $status{$status}++;

        if ($status == 200) {
            $status{whole}++ if $body =~ /"completion_tokens":8182,/;
            next;
        }

        my ($why) = $head =~ /^X-Mistral-Shed-Reason: (\w+)\r$/m;

        $reason{$why}++ if $head =~ /^Retry-After: [1-9]\d*\r$/m
                           && $body =~ /"code":"$why"/;
    }

    cmp_ok($status{200}, '>=', 40, 'as many as fit are served');
    is($status{whole}, $status{200}, 'to their end');
    diag((get('/status'))[2]) if $most > 40;
    cmp_ok($most, '<=', 40, 'never more at once');
    is(word('pool', 'preemptions'), 0, 'nothing is preempted');
    is($status{503}, 200 - $status{200}, 'all others get 503');
    is(($reason{kv_full} // 0) + ($reason{queue_full} // 0), $status{503},
       'with reason and time');
    cmp_ok($reason{kv_full} // 0, '>', 0, 'some since blocks lack');
}


# class first, then keys in turn, whoever came first

sub order {
    my $held = ask('/one', 10000, 'name=held&p=0');
    my @socks;

    waiting(sub { word('one', 'running') == 1 });
    push @socks, map { ask('/one', 5, "name=a$_&key=a&p=0") } 1 .. 8;
    waiting(sub { word('one', 'waiting') == 8 });
    push @socks, map { ask('/one', 5, "name=b$_&key=b&p=0") } 1 .. 2;
    waiting(sub { word('one', 'waiting') == 10 });

    like((result(ask('/one', 5, 'name=low&p=-1')))[1],
         qr/^X-Mistral-Shed-Reason: queue_full\r$/m,
         'a class below 0 does not wait where others do');

    push @socks, ask('/one', 5, 'name=high&p=3');
    waiting(sub { word('one', 'waiting') == 11 });

    is(word('one', 'preemptions'), 0, 'what runs goes on');
    close $held;
    is((result($_))[0], 200, 'served') for @socks;

    my @order = order_of(qr/^(high|[ab]\d) 200/);

    is($order[0], 'high', 'the class is first');
    my ($b1, $b2) = sort { $a <=> $b } place('b1', @order),
                                       place('b2', @order);

    cmp_ok($b1, '<=', 2, 'a key is in turn');
    cmp_ok($b2, '<=', 4, 'and again');
    is(join('', map { substr $_, 0, 1 } @order[-6 .. -1]), 'aaaaaa',
       'the other waits for itself');
}


# a class may take the place of a lower one, which goes on afterwards

sub preempt {
    my $before = word('one', 'preemptions');
    my $low = stream_of('POST /one/chat/completions?name=low',
                        chat_of(30000, 1));

    my ($status, $head, $body) = result(ask('/vip', 5, 'name=vip'));

    is($status, 200, 'a class that preempts is served');
    is(word('one', 'preemptions'), $before + 1, 'in the place of another');

    my ($then, $said) = (length said($low));

    waiting(sub { read_some($low, 0.1);
                  length($said = said($low)) > $then + 50 });
    is($said, substr('The quick brown fox jumps over the lazy dog. ' x 700,
                     0, length $said), 'whose text goes on without a break');
    close $low->{sock};
}

sub said { return join '', $_[0]{buf} =~ /"content":"([^"]*)"/g }


# half of the queue is for those who do not give way; then they leave

sub yield {
    my @held = map { ask('/two', 3000, "name=held$_") } 1, 2;

    waiting(sub { word('two', 'running') == 2 });

    my @low = map { ask('/low', 3, "name=low$_") } 1, 2;
    waiting(sub { word('two', 'waiting') == 2 });

    like((result(ask('/low', 3, 'name=low3')))[1],
         qr/^HTTP.* 503 (?s:.*)Reason: queue_full\r$/m, 'half of the queue');
    is(word('two', 'waiting'), 2, 'is theirs');

    my $one = ask('/two', 3, 'name=one');

    for (@low) {
        my ($status, $head, $body) = result($_);

        is($status, 503, 'they give way');
        like($head, qr/^X-Mistral-Shed-Reason: queue_full\r$/m, 'reason');
        like($body, qr/"message":"Requests of a higher class/, 'sentence');
    }

    is(word('two', 'waiting'), 1, 'who does not waits');
    is(word('two', 'running'), 2, 'what runs goes on');
    close shift @held;
    is((result($one))[0], 200, 'and is served');
    is(word('two', 'preemptions'), 0, 'at its turn');
}


# a quarter of a second for each: the queue of 8 before one more is 2 s long

sub retry_after {
    is((result(ask('/brisk', 5, "name=$_")))[0], 200, 'known') for 1 .. 3;

    my @socks = map { ask('/brisk', 5, "name=q$_") } 1 .. 9;
    waiting(sub { word('brisk', 'queue_places') == 9 });

    my ($status, $head) = result(ask('/brisk', 5, 'name=over'));
    my ($after) = $head =~ /^Retry-After: (\d+)\r$/m;

    is($status, 503, 'full');
    cmp_ok($after, '>=', 2, "when a place is free: $after s");
    cmp_ok($after, '<=', 60, 'and not for ever');

    is((result($_))[0], 200, 'served') for @socks;
}


# those of one location are wanted in their order: who is behind too many is
# refused before they are served

sub deadline {
    my @socks = map { ask('/dated', 10, "name=d$_") } 1 .. 12;
    my ($n, $shed) = (0, 0);

    for (@socks) {
        my ($status, $head, $body) = result($_);

        $n += $status == 200;
        $shed += $status == 503 && $body =~ /"code":"deadline"/
                 && $head =~ /^X-Mistral-Shed-Reason: deadline\r$/m;
    }

    cmp_ok($n, '>=', 1, "$n in time");
    cmp_ok($shed, '>=', 4, "$shed cannot be");
    is($n + $shed, 12, 'and no other end');
    is(word('brisk', 'queue_places'), 0, 'no place is held');

    # nobody is before it, and the place is not free in time

    my $held = ask('/brisk', 1000, 'name=held');
    waiting(sub { word('brisk', 'running') == 1 });

    my ($status, $head, $body) = result(ask('/late', 5, 'name=late'));

    is($status, 503, 'waits in vain');
    like($body, qr/"code":"deadline"/, 'for its time');
    is(word('brisk', 'running'), 1, 'while the other runs');
    close $held;
}


sub counters {
    my ($shed, $all);

    # the client has its answer a moment earlier

    waiting(sub {
        my $m = (get('/metrics'))[2];

        $all = grep { /^\w+ 503 / } split /\n/, slurp("$S->{prefix}/logs/order");
        $shed = 0;
        $shed += $1 while $m =~ /^mistral_shed_total\{[^}]*reason="(?:queue_full|kv_full|deadline)"} (\d+)/mg;

        return $shed == $all;
    }, 5);

    is($shed, $all, 'each is counted by its reason')
        or diag(join "\n", (grep { /^\w+ 503 / } split /\n/, slurp("$S->{prefix}/logs/order")), grep { /shed/ } split /\n/, (get('/metrics'))[2]);
}


sub chat_of {
    my ($n, $stream) = @_;

    return qq({"max_tokens":$n,"stream":)
           . ($stream ? 'true' : 'false')
           . ',"messages":[{"role":"user","content":"hi"}]}';
}

sub ask {
    my ($place, $n, $args) = @_;

    my $prompt = sprintf '%010d', ++$asked;      # no two have a block in common

    return request("POST $place/completions?$args",
                   qq({"prompt":"$prompt","max_tokens":$n}))
           // die 'no connection';
}

sub result {
    my ($head, $body) = split /\r\n\r\n/, read_all($_[0], 30), 2;
    my ($status) = ($head // '') =~ m{^HTTP/1\.1 (\d+)};

    return ($status // 0, ($head // '') . "\r\n", $body // '');
}

sub waiting {
    my ($what, $seconds) = @_;

    ok(wait_for($what, $seconds // 20), 'it happens')
        or diag(join ' ', (caller)[2], (get('/status'))[2]);
}

sub word {
    my ($model, $name) = @_;
    my ($n) = (get('/status'))[2] =~ /"model":"$model",.*?"$name":(\d+)/s;

    return $n // -1;
}

sub order_of {
    my ($what) = @_;

    return map { /$what/ ? $1 : () }
           split /\n/, slurp("$S->{prefix}/logs/order");
}

sub place {
    my ($name, @order) = @_;

    for (0 .. $#order) {
        return $_ if $order[$_] eq $name;
    }

    return -1;
}
