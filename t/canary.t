#!/usr/bin/perl

# mistral_canary over reloads and deaths: who met the canary meets it again
# when its part grows, and a canary that was rolled back stays so until there
# is a reason to try again.

use warnings;
use strict;

use Test::More;

use MistralLife;

time_out(120);
server();

my $key = 'key=$arg_k';
my $watch = 'max_errors=10% window=10m min=3';
my %line = (grow => "next 10% $key", watch => "next 100% $watch",
            second => "other 30% $key");
my %model = (next => 'path null:rate=500; max_batch 1;', other => 'path null:;');

configure();
run_nginx();
ok(ready(), 'ready');

# 400 keys, 10%, 30%, 60%, all: nobody is lost on the way, nor on the way back

my (%met, @size);

for my $part (10, 30, 60, 100) {
    $line{grow} = "next $part% $key";
    configure();
    ok(reload(), "$part%");
    ok(ready(), 'ready');

    my %now = map { $_ => 1 } grep { who('/grow', "k=user$_") eq 'next' }
              1 .. 400;

    is_deeply([ grep { !$now{$_} } keys %met ], [], 'who met it meets it');
    %met = %now;
    push @size, scalar keys %now;
}

# the keys are always the same: so are the numbers

cmp_ok(abs($size[0] - 40), '<', 30, "10% of 400 are $size[0]");
cmp_ok(abs($size[1] - 120), '<', 45, "30% are $size[1]");
cmp_ok(abs($size[2] - 240), '<', 50, "60% are $size[2]");
is($size[3], 400, 'all are all');

$line{grow} = "next 0% $key";
configure();
ok(reload() && ready(), '0%');
is(scalar(grep { who('/grow', "k=user$_") eq 'next' } 1 .. 50), 0, 'nobody');

# without a key it is by chance: not one of 100 throws of a coin is the odds
# of 2^-100

$line{grow} = "next 50% $key";
configure();
ok(reload() && ready(), '50%');

my $n = grep { who('/grow', 'k=') eq 'next' } 1 .. 100;

ok($n > 0 && $n < 100, "no key: $n of 100");

# the second line takes its part of the rest

my %who;

$who{who('/two', "k=user$_")}++ for 1 .. 400;
cmp_ok(abs($who{next} - 200), '<', 60, "50% of 400 are $who{next}");
cmp_ok(abs($who{other} - 60), '<', 40, "30% of the rest are $who{other}");

# two are no rate with min=3

mark();
failed(2);
is(canary('rolled_back'), 'false', 'two failed');
is(canary('requests') . canary('errors'), '22', 'of two');
is(who('/watch'), 'next', 'the third goes well, and makes it a rate');
is(canary('rolled_back'), 'true', 'rolled back');
is(who('/watch'), 'm', 'the next one goes to the stable model');
is(scalar(() = log_since() =~ /canary "next" is rolled back: 2 of its 3 requests/g),
   1, 'said once');
is(who('/always'), 'm', 'the same line elsewhere is the same canary');
is(who('/other'), 'next', 'another line is another');

# nothing of this is a reason

ok(reload() && ready(), 'a reload');
is(who('/watch'), 'm', 'changes nothing');

my @old = workers();

kill 'KILL', @old;
ok(wait_for(sub { my %o = map { $_ => 1 } @old;
                  2 == grep { !$o{$_} } workers() }), 'new workers');
is(who('/watch'), 'm', 'change nothing');

# these are

is((fetch('POST /control/resume?model=next', ''))[0], 200, 'an order');
is(who('/watch'), 'next', 'brings it back');
is(canary('rolled_back'), 'false', 'counted anew');

failed(2);
is(who('/watch'), 'm', 'rolled back again');
$line{watch} = "next 99.99% $watch";
configure();
ok(reload() && ready(), 'another line');
is(who('/watch'), 'next', 'begins anew');

failed(2);
is(who('/watch'), 'm', 'rolled back again');
$model{next} = 'path null:rate=500; max_batch 1; context 4096;';
configure();
ok(reload() && ready(), 'another engine');
is(who('/watch'), 'next', 'begins anew');

# 64 clients on two workers while it dies: one says so, and all who come
# after that get an answer of the stable model

mark();
$model{next} = 'path null:rate=50;';
configure();
ok(reload() && ready(), 'room for 64');

my @s = map { stream_of('POST /watch/completions', body(3000)) } 1 .. 64;

crash();
finish($_) for @s;
is(canary('errors'), 64, '64 errors');
is(scalar(() = log_since() =~ /is rolled back/g), 1, 'said once');
is(join(' ', map { who('/watch') } 1 .. 8), 'm m m m m m m m',
   'all are the stable model\'s');

no_alerts('killed engines', qr/exited on signal 9/);
stop_nginx();
nothing_left();
done_testing();


sub configure {
    my $watch = "mistral_canary $line{watch};";

    conf(http => join('', map { "mistral_model $_ { $model{$_} }\n" }
                          sort keys %model),
         model => 'path null:;',
         locations => <<"END");
location /grow/ { mistral_pass m; mistral_canary $line{grow}; }
location /two/ { mistral_pass m; mistral_canary $line{grow}; mistral_canary $line{second}; }
location /watch/ { mistral_pass m; $watch mistral_queue 0; }
location /hold/ { mistral_pass next; }
location /always/ { mistral_pass m; $watch }
location /other/ { mistral_pass m; mistral_canary next 100% max_errors=10% window=9m min=3; }
location /control/ { mistral_control; }
END
}


sub body { return qq({"prompt":"a","max_tokens":$_[0],"stream":true}) }


# who answers

sub who {
    my ($where, $args) = @_;
    my ($status, $head) = fetch("POST $where/completions?" . ($args // ''),
                                '{"prompt":"a","max_tokens":1}');
    my ($model) = $head =~ /^X-Mistral-Model: (\S+)\r?$/m;

    return $model // $status;
}


sub canary {
    my ($field) = @_;
    my ($value) = (get('/status'))[2]
                  =~ /"canary":\{[^}]*"$field":(\w+)/;

    return $value // '';
}


# its requests while its only place is taken

sub failed {
    my ($n) = @_;
    my $s = stream_of('POST /hold/completions', body(30000));

    is(who('/watch'), 503, 'one fails') for 1 .. $n;
    close $s->{sock};
    ok(wait_for(sub { (get('/status'))[2]
                      =~ /"model":"next",.*?"queue_places":(\d+)/s
                      && $1 == 0 }), 'free');
}


sub crash {
    my ($pid) = (get('/status'))[2] =~ /"model":"next",.*?"engine_pid":(\d+)/s;

    kill 'KILL', $pid;
    ok(wait_for(sub {
        my ($state, $new) = (get('/status'))[2]
            =~ /"model":"next",.*?"state":"(\w+)",.*?"engine_pid":(\d+)/s;
        return $state eq 'ready' && $new && $new != $pid;
    }), 'another engine');
}
