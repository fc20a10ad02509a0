#!/usr/bin/perl

# mistral_fallback while engines die: requests that were under way are
# answered by another model, whole and counted right, whatever they had come
# to; what has begun to be sent is not begun again.

use warnings;
use strict;

use Test::More;

use MistralLife;

time_out(120);
my $server = server();

# "late" has no first token for 8 s, "m" has one at once

conf(model => 'path null:rate=50; max_batch 64;',
     http => <<'END', locations => <<'END2');
mistral_model late { path null:delay=8000,rate=50; max_batch 64; context 65536; }
mistral_model spare { path null:rate=1000; max_batch 64; context 65536; }
log_format who '$status $mistral_effective_model $mistral_fallback_reason '
               '$mistral_prompt_tokens+$mistral_completion_tokens '
               'wasted=$mistral_wasted_tokens;';
client_max_body_size 1m;
END
location /late/ { mistral_pass late; mistral_fallback spare on=engine|loading; access_log logs/access.log who; }
location /now/ { mistral_pass m; mistral_fallback spare on=engine|loading; access_log logs/access.log who; }
location /control/ { mistral_control; }
location = /metrics { mistral_status prometheus; }
END2
run_nginx();
ok(ready(), 'ready');

# 32 at once, streams and whole, before their first token

my @s = map { ask('late', 7, $_ % 2) } 1 .. 32;

ok(wait_for(sub { model('late', 'queue_places') == 32 }), '32 under way');
crash('late');

my @got = map { read_all($_, 20) } @s;

is(scalar(grep { /^HTTP\/1\.1 200 .*^X-Mistral-Model: spare\r$/ms } @got), 32,
   'all of them are answered by another model');
is(scalar(grep { text_in($_) eq 'The qui' } @got), 32, 'to their end');
is(scalar(grep { /"prompt_tokens":3,"completion_tokens":7,/ } @got), 16,
   'counted once');
ok(wait_for(sub { 32 == (() = access() =~ /^200 spare engine 3\+7 wasted=0;$/mg) }),
   'also in the log');
is(metric('mistral_fallbacks_total{model="late"}'), 32, 'and in the metrics');
is(metric('mistral_shed_total{model="late",reason="engine"}'), 0,
   'nobody was refused');

# whole answers that have tokens already, and streams that were begun

@s = map { ask('now', 100, 0) } 1 .. 4;

my @streams = map { stream_of('POST /now/completions', body(100, 1)) } 1 .. 4;

ok(wait_for(sub { model('m', 'completion_tokens') > 40 }), 'tokens');
crash('m');
@got = map { read_all($_, 20) } @s;

is(scalar(grep { /^X-Mistral-Model: spare\r$/m } @got), 4,
   'whole answers are begun again');
is(scalar(grep { /"prompt_tokens":3,"completion_tokens":100,/ } @got), 4,
   'and count once');

finish($_) for @streams;
is(scalar(grep { $_->{buf} =~ /"code":"engine_unavailable"/
                 && $_->{buf} =~ /^X-Mistral-Model: m\r$/m } @streams), 4,
   'streams end with an error');
is(metric('mistral_fallbacks_total{model="m"}'), 4, 'four of eight');
cmp_ok(metric('mistral_wasted_tokens_total{model="m"}'), '>=', 16,
       'what the first one had sampled is nobody\'s');
is(metric('mistral_wasted_tokens_total{model="spare"}'), 0, 'only that');

# a prompt that is encoded in slices, twice

my $long = 'x' x 50000;
my $s = ask('late', 3, 0, $long);

ok(wait_for(sub { model('late', 'queue_places') == 1 }), 'a long prompt');
crash('late');
like(read_all($s, 20), qr/"prompt_tokens":50000,"completion_tokens":3,/,
     'is encoded anew');

# an old worker's requests, whose new engine it shares with the new ones

$s = ask('late', 5, 1);
ok(wait_for(sub { model('late', 'queue_places') == 1 }), 'under way');

kill 'HUP', master();
ok(wait_for(sub { log_text() =~ /gracefully shutting down/ }), 'a reload');
crash('late');
is(text_in(read_all($s, 20)), 'The q', 'the old worker has another model');

# who goes to another model can leave and be ended there, too

$s = ask('late', 30000, 0);
ok(wait_for(sub { model('late', 'queue_places') == 1 }), 'under way');
crash('late');
ok(wait_for(sub { model('spare', 'running') == 1 }), 'taken over');
close $s;
ok(wait_for(sub { model('spare', 'queue_places') == 0 }), 'its client leaves');

mark();
$s = ask('late', 30000, 0);
ok(wait_for(sub { model('late', 'queue_places') == 1 }), 'under way');
crash('late');
ok(wait_for(sub { model('spare', 'running') == 1 }), 'taken over');

my ($id) = log_since() =~ /request "([^"]+)" goes from model "late" to "spare"/;

is((fetch("POST /control/cancel?id=$id", ''))[0], 200, 'an order');
like(read_all($s, 20), qr/^HTTP\/1\.1 410 .*"code":"cancelled"/s, 'ends it');

for my $name (qw/ m late spare /) {
    ok(wait_for(sub { model($name, 'queue_places') == 0 }),
       "no place of $name is lost");
}

no_alerts('killed engines', qr/exited on signal 9|engine process/);
stop_nginx();
nothing_left();
done_testing();


sub body {
    my ($n, $stream, $prompt) = @_;

    $stream = $stream ? 'true' : 'false';
    $prompt //= 'abc';

    return qq({"prompt":"$prompt","max_tokens":$n,"stream":$stream});
}


sub ask {
    my ($where, @body) = @_;

    return request("POST /$where/completions", body(@body));
}


sub text_in { return join '', $_[0] =~ /"text":"([^"]*)"/g }


sub model {
    my ($name, $field) = @_;
    my ($value) = (get('/status'))[2]
                  =~ /"model":"$name",.*?"$field":"?([^",]*)/s;

    return $value // -1;
}


sub metric {
    my ($name) = @_;
    my ($value) = (get('/metrics'))[2] =~ /^\Q$name\E (\d+)$/m;

    return $value // -1;
}


sub access { return slurp("$server->{prefix}/logs/access.log") }


sub crash {
    my ($name) = @_;
    my $pid = model($name, 'engine_pid');

    kill 'KILL', $pid;
    ok(wait_for(sub { my $new = model($name, 'engine_pid');
                      $new > 1 && $new != $pid
                      && model($name, 'state') eq 'ready' }),
       "another engine of $name");
}
