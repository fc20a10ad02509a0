#!/usr/bin/perl

# mistral_status prometheus: the format, checked by rules of its own (and by
# promtool where there is one); what is counted; that no counter goes back
# when a worker, an engine or a configuration goes.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;

my $S = server();
my %last;

time_out(120);

# all that a scrape may hold, and nothing else

my @counters = qw/ requests_total prompt_tokens_total cached_tokens_total
                   completion_tokens_total wasted_tokens_total
                   preemptions_total shed_total cut_answers_total
                   client_aborts_total engine_restarts_total fallbacks_total /;
my @gauges = qw/ engine_ready engine_loaded_ratio engine_waiting drained kv_cache_efficiency_ratio scheduler_running scheduler_queue_length
                 scheduler_waiting_tokens scheduler_paused kv_cache_blocks
                 kv_cache_usage_ratio kv_cache_hit_rate
                 batch_utilization_ratio breaker_state
                 device_temperature_celsius device_power_watts
                 device_clock_hertz device_memory_used_bytes
                 device_memory_bytes
                 canary_rolled_back /;
my @histograms = qw/ time_to_first_token_seconds inter_token_latency_seconds
                     queue_time_seconds step_seconds /;
my %type = ((map { ("mistral_$_" => 'counter') } @counters),
            (map { ("mistral_$_" => 'gauge') } @gauges),
            (map { ("mistral_$_" => 'histogram') } @histograms));

configure();
is(nginx(), 0, 'start');
ok(ready(), 'ready');

my $m = scrape('nothing happened yet');

is_deeply([ sort keys %{$m->{type}} ], [ sort keys %type ], 'all names');
is($m->{v}{'mistral_requests_total{model="m",code="200"}'}, undef,
   'no series of what never was');
is($m->{v}{'mistral_engine_ready{model="m"}'}, 1, 'ready');
is($m->{v}{'mistral_engine_loaded_ratio{model="m"}'}, 1, 'all is loaded');
is($m->{v}{'mistral_prompt_tokens_total{model="m"}'}, 0, 'no tokens');
is($m->{v}{'mistral_kv_cache_blocks{model="m",state="free"}'} > 0, 1,
   'all blocks are free');

# statuses, tokens, times

is(ask('/v1/completions', '{"prompt":"0123456789","max_tokens":5}'), 200,
   'an answer of 5 tokens');
is(ask('/v1/completions', '{"prompt":"x","max_tokens":3,"stream":true}'),
   200, 'a stream of 3');
is(ask('/v1/completions', '{"prompt":'), 400, 'a broken body');
is(ask('/v1/completions', '{"model":"evil\"}\n","prompt":"x"}'), 404, 'an unknown model');
is(ask('/v1/nothing', ''), 404, 'an unknown URL');
is(ask('/var/completions', '{"prompt":"x"}'), 404, 'a variable of no model');
is(ask('/small/completions', '{"prompt":"' . 'x' x 200 . '"}'), 413,
   "nginx's own 413");
is((get('/v1/models'))[0], 200, 'models');
is((get('/plain'))[0], 200, 'another location');

$m = scrape('some requests');

is_deeply(series($m, 'mistral_requests_total'),
          { 'model="m",code="200"' => 3, 'model="m",code="400"' => 1,
            'model="m",code="404"' => 2, 'model="m",code="413"' => 1,
            'model="",code="404"' => 1 }, 'requests by model and code');
is($m->{v}{'mistral_prompt_tokens_total{model="m"}'}, 11, 'prompt tokens');
is($m->{v}{'mistral_completion_tokens_total{model="m"}'}, 8,
   'completion tokens');
is($m->{v}{'mistral_time_to_first_token_seconds_count{model="m"}'}, 2,
   'first tokens');
is($m->{v}{'mistral_queue_time_seconds_count{model="m"}'}, 2, 'starts');
is($m->{v}{'mistral_inter_token_latency_seconds_count{model="m"}'}, 6,
   'pauses between tokens');
cmp_ok($m->{v}{'mistral_inter_token_latency_seconds_sum{model="m"}'}, '>=',
       6 * 0.005, 'which are what the null model makes them');
cmp_ok($m->{v}{'mistral_step_seconds_count{model="m"}'}, '>=', 8, 'steps');

# refusals and aborts, while one request runs

my $s = tokens(400);
$m = scrape('a running request');
is($m->{v}{'mistral_scheduler_running{model="m"}'}, 1, 'runs');
is($m->{v}{'mistral_batch_utilization_ratio{model="m"}'}, 0.5, 'of 2');
cmp_ok($m->{v}{'mistral_kv_cache_usage_ratio{model="m"}'}, '>', 0,
       'with blocks');

my $t = tokens(400);
is(ask('/tight/completions', '{"prompt":"x"}'), 503, 'a full queue');

my $w = request('POST /v1/completions', '{"prompt":"abc","max_tokens":5}');
ok(wait_for(sub { value('mistral_scheduler_queue_length{model="m"}') == 1 }),
   'one waits');
is(value('mistral_scheduler_waiting_tokens{model="m"}'), 3, 'its tokens');
close $w;
ok(wait_for(sub { abort_count('queue') == 1 }), 'its client leaves');
close $_->{sock} for $s, $t;
ok(wait_for(sub { abort_count('decode') == 2 }), 'and two readers');

$m = scrape('aborts');
is(shed_count('queue_full'), 1, 'one was shed');
is(shed_count('engine'), 0, 'not for the engine');
is($m->{v}{'mistral_cut_answers_total{model="m"}'}, 0, 'who left cut nothing');
is($m->{v}{'mistral_requests_total{model="m",code="499"}'}, 3, 'three 499');
is($m->{v}{'mistral_requests_total{model="m",code="503"}'}, 1, 'one 503');
ok(wait_for(sub { value('mistral_scheduler_running{model="m"}') == 0 }),
   'nothing runs');

# a reload, a dead worker

my $tokens = value('mistral_completion_tokens_total{model="m"}');

ok(reload(), 'reload');
$m = scrape('after a reload');
is($m->{v}{'mistral_completion_tokens_total{model="m"}'}, $tokens,
   'tokens as before');
is($m->{v}{'mistral_requests_total{model="m",code="499"}'}, 3,
   'requests as before');

my @old = workers();
signal 'KILL', @old;
ok(wait_for(sub { my %o = map { $_ => 1 } @old;
                  (grep { !$o{$_} } workers()) == 2 }), 'new workers');
ok(ready(), 'ready');
$m = scrape('after kill -9 of the workers');
is($m->{v}{'mistral_completion_tokens_total{model="m"}'}, $tokens,
   'tokens as before');
is($m->{v}{'mistral_requests_total{model="m",code="499"}'}, 3,
   'requests as before');

# a dead engine

my $engine = engine();
$s = tokens(400);
signal 'KILL', $engine;
finish($s);
ok(wait_for(sub { my $e = engine(); $e && $e != $engine && ready(0.1) }),
   'another engine');
$m = scrape('after kill -9 of the engine');
cmp_ok($m->{v}{'mistral_completion_tokens_total{model="m"}'}, '>=', $tokens,
       'tokens go on');
is($m->{v}{'mistral_engine_restarts_total{model="m"}'}, 1, 'one restart');
is(shed_count('engine'), 0, 'a broken stream is not shed');
is($m->{v}{'mistral_cut_answers_total{model="m"}'}, 1, 'but cut');
is($m->{v}{'mistral_requests_total{model="m",code="503"}'}, 2,
   'its status is in the log and here');

# a changed engine beside the old one: the old one's tokens count, too

$tokens = $m->{v}{'mistral_completion_tokens_total{model="m"}'};
$engine = engine();
$s = tokens(60);
configure(model => 'path null:rate=200; max_batch 2; context 2048;');
ok(reload_with(), 'reload with a changed engine');
ok(wait_for(sub { my $e = engine(); $e && $e != $engine && ready(0.1) }),
   'another engine');
is(ask('/v1/completions', '{"prompt":"x","max_tokens":7}'), 200,
   'it answers');
finish($s);
ok(wait_for(sub { scrape('both engines')->{v}
                  {'mistral_completion_tokens_total{model="m"}'}
                  == $tokens + 60 + 7 }), 'the sum of both')
    or diag "$tokens + 67, but "
            . value('mistral_completion_tokens_total{model="m"}');
is(value('mistral_engine_restarts_total{model="m"}'), 1,
   'another engine is no restart');

configure();
ok(reload_with(), 'and back');
ok(wait_for(sub { ready(0.1) }), 'ready');
$m = scrape('a third engine');
is($m->{v}{'mistral_completion_tokens_total{model="m"}'}, $tokens + 67,
   'tokens as before');

# no engine: gauges of none, counters as they were

ok(wait_for(sub { workers() == 2 }), 'old workers have left');

my $super = supervisor();
$engine = engine();
chmod 0, $S->{program};                        # none can be started
signal 'STOP', $super;
signal 'KILL', $super, $engine;
ok(wait_for(sub { (get('/healthz'))[0] == 503 }), 'without an engine');
$m = scrape('no engine');
is($m->{v}{'mistral_engine_ready{model="m"}'}, 0, 'it is not ready');
is(ask('/v1/completions', '{"prompt":"x"}'), 503, 'requests get 503');
ok(wait_for(sub { shed_count('engine') == 1 }), 'which are counted');
chmod 0755, $S->{program};
ok(reload_with(), 'reload');
ok(ready(), 'ready');

# names of vLLM

$m = parse((get('/vllm'))[2]);
is_deeply([ sort grep { /^vllm:/ } keys %{$m->{type}} ],
          [ map { "vllm:$_" } qw/ kv_cache_usage_perc num_requests_running
                                  num_requests_waiting / ],
          "vLLM's names");
is($m->{v}{'vllm:num_requests_running{model_name="m"}'}, 0, 'none runs');
ok(exists $m->{v}{'mistral_scheduler_running{model="m"}'}, 'beside ours');

my ($code, $head, $body) = get('/metrics');
like($head, qr{^Content-Type: text/plain; version=0\.0\.4; charset=utf-8\r}m,
     'the type');
like($head, qr/^Cache-Control: no-store/m, 'never cached');
is(ask('/metrics', '{}'), 405, 'not by POST');

SKIP: {
    my ($tool) = grep { -x } map { "$_/promtool" } split /:/, $ENV{PATH};

    skip 'no promtool', 1 if !$tool;

    open my $fh, '|-', "$tool check metrics >$S->{prefix}/promtool 2>&1" or die $!;
    print $fh $body;
    ok(close $fh, 'promtool check metrics') or diag slurp("$S->{prefix}/promtool");
}

unlike(log_text(), qr/\[emerg\]|exited on signal 11/,
       'no crash');

done_testing();


sub configure {
    my %o = (model => 'path null:rate=100; max_batch 2; context 1024;', @_);

    conf(model => "$o{model} alias evil;", locations => <<'END');
location = /metrics { mistral_status prometheus; }
location = /vllm { mistral_status prometheus vllm; }
location /var/ { mistral_pass $arg_m; }
location /tight/ { mistral_pass m; mistral_queue 0; }
location /small/ { mistral_pass m; client_max_body_size 100; }
END
}


# one scrape: right in form, nothing unknown, no counter below its last value

sub scrape {
    my ($name) = @_;

    my ($status, undef, $text) = get('/metrics');
    my $scrape = parse($text);
    my @bad = @{$scrape->{bad}};

    push @bad, "status $status" if $status != 200;

    for my $key (keys %{$scrape->{v}}) {
        my ($family) = $key =~ /^(\w+)/;
        my $is = $type{$family =~ s/_(bucket|sum|count)$//r}
                 // $type{$family} // '';

        push @bad, "unknown $key" if !$is;

        if ($is ne 'gauge') {
            push @bad, "$key $scrape->{v}{$key} was $last{$key}"
                if exists $last{$key} && $scrape->{v}{$key} < $last{$key};
            $last{$key} = $scrape->{v}{$key};
        }
    }

    push @bad, map { "lost $_" } grep { !exists $scrape->{v}{$_} } keys %last;

    ok(!@bad, "scrape: $name") or diag join "\n", @bad;

    return $scrape;
}


# the text format 0.0.4, as strictly as it can be written

sub parse {
    my ($text) = @_;

    my (%type, %v, @bad, $family, $help, %hist);

    push @bad, 'no newline at the end' if $text !~ /\n\z/;

    for my $line (split /\n/, $text) {

        if ($line =~ /^# HELP ([a-zA-Z_:][\w:]*) ([^\\]+)$/) {
            $help = $1;
            push @bad, "second $line" if exists $type{$1};
            next;
        }

        if ($line =~ /^# TYPE ([a-zA-Z_:][\w:]*) (counter|gauge|histogram)$/)
        {
            push @bad, "$line without its help" if ($help // '') ne $1;
            $family = $1;
            $type{$family} = $2;
            push @bad, "$line: a counter ends with _total"
                if ($2 eq 'counter') != ($family =~ /_total$/ ? 1 : 0);
            next;
        }

        my $label = qr/[a-zA-Z_]\w*="[\w.+-]*"/;

        if ($line !~ /^([a-zA-Z_:][\w:]*)\{($label(?:,$label)*)\}
                       \ (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/x)
        {
            push @bad, "malformed: $line";
            next;
        }

        my ($name, $labels, $value) = ($1, $2, $3);

        push @bad, "second $line" if exists $v{"$name\{$labels\}"};
        $v{"$name\{$labels\}"} = $value;
        push @bad, "negative: $line" if $value < 0;

        if (($type{$family // ''} // '') eq 'histogram') {
            push @bad, "$line in $family"
                if $name !~ /^\Q$family\E_(bucket|sum|count)$/;
            push @{$hist{$family}}, [ $name, $labels, $value ];

        } elsif ($name ne ($family // '')) {
            push @bad, "$line in another family";
        }
    }

    # buckets rise to +Inf, which is the count

    for my $f (keys %hist) {
        my (%n, %le);

        for (@{$hist{$f}}) {
            my ($name, $labels, $value) = @$_;
            my ($model) = $labels =~ /model="([^"]*)"/;

            if ($name =~ /_bucket$/) {
                my ($le) = $labels =~ /le="([^"]*)"/;

                $le = 9**9**9 if $le eq '+Inf';
                push @bad, "$f: le $le does not rise"
                    if exists $le{$model} && $le <= $le{$model};
                push @bad, "$f: $value below the bucket before"
                    if exists $n{$model} && $value < $n{$model};
                ($le{$model}, $n{$model}) = ($le, $value);

            } elsif ($name =~ /_count$/) {
                push @bad, "$f: count $value, +Inf $n{$model}"
                    if $value != $n{$model} || $le{$model} != 9**9**9;
            }
        }
    }

    return { type => \%type, v => \%v, bad => \@bad };
}

sub series {
    my ($scrape, $name) = @_;

    return { map { (/\{(.*)\}/)[0] => $scrape->{v}{$_} }
             grep { /^\Q$name\E\{/ } keys %{$scrape->{v}} };
}

sub value { parse((get('/metrics'))[2])->{v}{$_[0]} // -1 }

sub abort_count {
    return value("mistral_client_aborts_total{model=\"m\",phase=\"$_[0]\"}");
}

sub shed_count {
    return value("mistral_shed_total{model=\"m\",reason=\"$_[0]\"}");
}


# until there are new workers; old ones may still have streams

sub reload_with {
    my %old = map { $_ => 1 } workers();

    signal 'HUP', master();

    return wait_for(sub { 2 == grep { !$old{$_} } workers() });
}

sub ask { return (fetch("POST $_[0]", $_[1]))[0] }

sub tokens {
    my ($n) = @_;

    return stream_of('POST /v1/completions',
                     qq({"prompt":"x","max_tokens":$n,"stream":true}));
}
