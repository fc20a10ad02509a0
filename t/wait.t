#!/usr/bin/perl

# mistral_engine_wait with engines that are not there: who is held, who is
# not, and what becomes of those who are.
#
# "m" is away while its supervisor stands still and it is killed: its state
# says READY, its heartbeat does not.

use warnings;
use strict;

use Test::More;

use MistralLife;

time_out(150);
my $server = server();
my $Text = "$server->{closed}/words";

write_file($Text, 'words ' x 100);

my %Conf = (workers => 2, http => <<'END', locations => <<'END2',
mistral_model m { path null:; max_batch 1; engine_timeout 2s; }
mistral_model spare { path null:; }
mistral_model words { path null:text=closed/words; engine_timeout 2s; }
log_format who '$pid $status $mistral_prompt_tokens+$mistral_completion_tokens '
               'waited=$mistral_engine_wait_time shed=$mistral_shed_reason '
               'phase=$mistral_abort_phase limit=$mistral_limit_status;';
mistral_queue 8;
mistral_engine_wait 60s;
mistral_limit_zone $binary_remote_addr zone=z:1m rate=9t/h burst=9;
END
location /m/ { mistral_pass m; }
location /off/ { mistral_pass m; mistral_engine_wait 0; }
location /short/ { mistral_pass m; mistral_engine_wait 300ms; }
location /some/ { mistral_pass m; mistral_engine_wait 2s; }
location /none/ { mistral_pass m; mistral_queue 0; }
location /spare/ { mistral_pass m; mistral_fallback spare; }
location /full/ { mistral_pass m; mistral_fallback spare on=queue_full; }
location /duration/ { mistral_pass m; mistral_max_duration 300ms; }
location /deadline/ { mistral_pass m; mistral_deadline ttft=300ms; }
location /limit/ { mistral_pass m; mistral_limit zone=z; }
location /turn/ { mistral_pass turn; }
location /words/ { mistral_pass words; }
location /control/ { mistral_control; access_log off; }
location = /metrics { mistral_status prometheus; access_log off; }
END2
    server => 'access_log logs/access.log who; '
              . 'location = /status { mistral_status json; access_log off; }');

sub configure {
    my ($turn) = @_;

    conf(%Conf, none => 1, http => "mistral_model turn { path null:rate=20; "
                                   . "reload drain; $turn }\n$Conf{http}");
}

# the first requests come with the first workers, before the engine or not

configure('max_batch 2;');
run_nginx();

my @first = map { ask('m', $_) } 1 .. 4;

is(scalar(grep { /^HTTP\/1\.1 200 / } map { read_all($_, 30) } @first), 4,
   'an engine that was just started');
ok(ready(), 'ready');

# it is gone

mark();
away('m');

like(said('off'), qr/^HTTP\/1\.1 503 .*^Retry-After: \d.*"code":"engine_unavailable"/ms,
     'off: 503 at once');
ok(wait_for(sub { access() =~ /^\d+ 503 -\+- waited=- shed=engine/m }),
   'which did not wait');
like(said('none'), qr/^HTTP\/1\.1 503 /, 'the same where nobody may wait');
like(said('short'), qr/^HTTP\/1\.1 503 .*^Retry-After: \d.*^X-Mistral-Shed-Reason: engine.*"code":"engine_unavailable"/ms,
     'the time is over: as at once');
ok(wait_for(sub { access() =~ /^\d+ 503 2\+0 waited=(?!0\.[0-2])\d+\.\d+ shed=engine/m }),
   'it waited');
like(said('duration'), qr/^HTTP\/1\.1 504 .*"code":"max_duration"/s,
     'the wait counts for mistral_max_duration');
like(said('deadline'), qr/^HTTP\/1\.1 503 .*"code":"deadline"/s,
     'and for mistral_deadline');
like(said('spare'), qr/^HTTP\/1\.1 200 .*^X-Mistral-Model: spare/ms,
     'a fallback that takes it is not waited for');
is(held('m'), 0, 'nobody is held');
is((fetch('POST /m/tokenize', '{"prompt":"abc"}'))[0], 200,
   'tokens need no engine');
is((fetch('POST /m/completions', '{"prompt":1.5}'))[0], 400,
   'a bad body is not held');

# held: whole answers, a stream, two answers at once

my @s = map { ask('m', $_) } 1 .. 3;

push @s, ask('full', 4, ',"stream":true'),
         ask('m', 5, ',"n":2,"temperature":1');
ok(wait_for(sub { held('m') == 6 }), 'five requests of six answers are held');

my $left = ask('m', 6);
ok(wait_for(sub { held('m') == 7 }), 'one more');
close $left;
ok(wait_for(sub { held('m') == 6 }), 'its client leaves');
ok(wait_for(sub { access() =~ /^\d+ 499 6\+0 waited=\d+\.\d+ shed=- phase=queue/m }),
   'which the log has');

my $one = ask('limit', 7);
ok(wait_for(sub { held('m') == 7 }), 'one of a limit');
like(said('limit'), qr/^HTTP\/1\.1 429 /, 'its next one is not held first');

my $last = ask('m', 8);

ok(wait_for(sub { held('m') == 8 }), 'as many as may wait');
like(said('m'), qr/^HTTP\/1\.1 503 .*"code":"engine_unavailable"/s,
     'one more is refused at once');
ok(!IO::Select->new(@s, $one)->can_read(0), 'nobody has had an answer');

my $log = access();
back('m');

my @got = map { read_all($_, 30) } @s, $one, $last;

is(scalar(grep { /^HTTP\/1\.1 200 / } @got), 7, 'all are answered');
like($got[3], qr/"finish_reason":"length".*data: \[DONE\]/s, 'the stream, too');
is(scalar(() = $got[4] =~ /"text":/g), 2, 'and both of two');
ok(wait_for(sub { held('m') == 0 && model('m', 'queue_places') == 0 }),
   'no place is lost');

ok(wait_for(sub { 7 == (() = substr(access(), length $log) =~ / 200 \d+\+\d+ waited=\d/g) }),
   'the log has their time');

my %order;

$log = substr access(), length $log;
push @{ $order{$1} }, $2 while $log =~ /^(\d+) 200 (\d+)\+\d+ waited=\d/mg;

is_deeply([ map { @$_ } values %order ],
          [ map { sort { $a <=> $b } @$_ } values %order ],
          'the oldest of each worker first');

# orders

away('m');
@s = map { ask('m', $_) } 1 .. 3;
ok(wait_for(sub { held('m') == 3 }), 'held');
is((fetch('POST /control/drain?model=m', ''))[0], 200, 'drained');
is(scalar(grep { /^HTTP\/1\.1 503 .*"code":"draining"/s } map { read_all($_, 20) } @s),
   3, 'they are refused then');
is(held('m'), 0, 'none is left');
is((fetch('POST /control/resume?model=m', ''))[0], 200, 'resumed');

# a worker that dies takes its own with it; others may hold as many again

@s = map { ask('m', $_) } 1 .. 8;
ok(wait_for(sub { held('m') == 8 }), 'held');

my @old = workers();

signal('KILL', @old);
ok(wait_for(sub { !(grep { alive($_) } @old) && workers() == 2 }),
   'workers are killed');
ok(wait_for(sub { held('m') == 0 }), 'nobody holds them');

@s = map { ask('m', $_) } 1 .. 8;
ok(wait_for(sub { held('m') == 8 }), 'as many again');

# a reload: an old worker keeps its own

ok(reload_begun(), 'reload');
is(held('m'), 8, 'they are still held');
ok(!IO::Select->new(@s)->can_read(0), 'nobody has had an answer');
back('m');
is(scalar(grep { /^HTTP\/1\.1 200 / } map { read_all($_, 30) } @s), 8,
   'old workers have them answered');
ok(wait_for(sub { workers() == 2 }), 'and leave');

# an engine that says it cannot be loaded

ok(wait_for(sub { model('words', 'state') eq 'ready' }), 'ready');
away('words');
@s = map { ask('words', $_) } 1 .. 2;
ok(wait_for(sub { held('words') == 2 }), 'held');
write_file($Text, '');
back('words', 1);
is(scalar(grep { /^HTTP\/1\.1 503 .*"code":"engine_unavailable"/s }
          map { read_all($_, 20) } @s),
   2, 'it is waited for no longer');
like(said('words'), qr/^HTTP\/1\.1 503 /, 'nor by who comes then');
write_file($Text, 'words ' x 100);
ok(wait_for(sub { model('words', 'state') eq 'ready' }), 'it can be again');

# "reload drain": the next engine begins when the old one has ended

my $stream = stream_of('POST /turn/completions',
                       '{"prompt":"a","max_tokens":30000,"stream":true}');

configure('max_batch 3;');
ok(reload_begun(), 'another engine');
ok(wait_for(sub { model('turn', 'state') eq 'draining' }), 'comes later');
@s = map { ask('turn', $_) } 1 .. 2;
ok(wait_for(sub { held('turn') == 2 }), 'who asks for it is held');
close $stream->{sock};
is(scalar(grep { /^HTTP\/1\.1 200 / } map { read_all($_, 30) } @s), 2,
   'until it is there');

# the end: nginx leaves when the time of who is held is over

ok(wait_for(sub { model('m', 'state') eq 'ready' }), 'ready');
away('m');
@s = map { ask('some', $_) } 1 .. 2;
ok(wait_for(sub { held('m') == 2 }), 'held');

my $super = $server->{super}{m};
signal('QUIT', master());
is(scalar(grep { /^HTTP\/1\.1 503 / } map { read_all($_, 20) } @s), 2,
   'a graceful end waits for their time');
signal('CONT', $super);
ok(wait_for(sub { !programs() && !alive(master()) }), 'and ends');

no_alerts('engines that were killed', qr/exited on signal 9|engine process|hung/);
nothing_left();
done_testing();


sub ask {
    my ($where, $n, $more) = @_;
    my $prompt = 'x' x $n;

    return request("POST /$where/completions",
                   qq({"prompt":"$prompt","max_tokens":2) . ($more // '') . '}');
}

sub said { return read_all(ask($_[0], 2), 30) }


sub model {
    my ($name, $field) = @_;
    my ($value) = (get('/status'))[2]
                  =~ /"model":"$name",.*?"$field":"?([^",]*)/s;

    return $value // -1;
}


sub held {
    my ($value) = (get('/metrics'))[2]
                  =~ /^mistral_engine_waiting\{model="$_[0]"\} (\d+)$/m;

    return $value // -1;
}


sub access { return slurp("$server->{prefix}/logs/access.log") }


# the engine is killed, and its supervisor cannot see it

sub away {
    my ($name) = @_;
    my $pid = model($name, 'engine_pid');
    my $super = $server->{super}{$name} = parent($pid);

    signal('STOP', $super);
    signal('KILL', $pid);
    ok(wait_for(sub { model($name, 'state') ne 'ready' }), "$name is away");
}


sub back {
    my ($name, $refused) = @_;

    signal('CONT', $server->{super}{$name});
    return if $refused;

    ok(wait_for(sub { model($name, 'state') eq 'ready' }), "$name is back");
}


# new workers are there beside the old ones

sub reload_begun {
    my %old = map { $_ => 1 } workers();

    return nginx('-s', 'reload') == 0
           && wait_for(sub { 2 == grep { !$old{$_} } workers() });
}
