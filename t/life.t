#!/usr/bin/perl

# The life of engines: what starts, survives and ends them, with nginx as it
# is run (daemon, master, workers) and kill -9 at every process.
#
# Module, program and the model's file lie in a directory that only root can
# enter (when root runs this): engine and workers run as another user and must
# need none of these paths.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use File::Copy qw/ copy /;
use File::Temp qw/ tempdir /;
use IO::Select;
use IO::Socket::INET;
use POSIX qw/ :sys_wait_h /;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $build = abs_path($ENV{BUILD} || 'build');
my $nginx = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';
my $prefix = tempdir(CLEANUP => !$ENV{LIFE_KEEP});
my $closed = "$prefix/closed";
my $program = "$closed/mistral";
my $port = free_port();
my $user = (grep { defined getpwnam $_ } qw/ www-data nobody /)[0];
my $text = join '', map { "Sentence number $_ of a long answer. " } 1 .. 50;
my ($old, @all);
my $marked = 0;                                # of error.log, in bytes

chmod 0755, $prefix;
mkdir "$prefix/$_" for qw/ logs temp closed /;
chmod 0700, $closed;
copy("$build/ngx_http_mistral_module.so", "$closed/module.so") or die $!;
copy($ENV{LIFE_PROGRAM} || "$build/mistral", $program) or die $!;
chmod 0755, $program;
write_file("$closed/answer", $text);

$SIG{PIPE} = 'IGNORE';
$SIG{ALRM} = sub { BAIL_OUT('life.t hangs') };
alarm 280;

# nothing is started by who only asks

conf();
is(nginx('-t'), 0, 'nginx -t');
is(nginx('-T'), 0, 'nginx -T');
is_deeply([ programs() ], [], 'they started nothing');

my $began = time;
is(nginx(), 0, 'start');
ok(ready(), 'ready');
ok(time - $began < 5, 'within 5 s, though the output was a pipe');

my $engine = engine();
my $supervisor = parent($engine);

is_deeply([ programs() ], [ sort { $a <=> $b } $engine, $supervisor ],
          'one supervisor, one engine');
isnt(parent($supervisor), master(), 'which is no child of nginx');
is(field($engine, 'NoNewPrivs'), '1', 'the engine can gain no privilege');

SKIP: {
    skip 'not root', 6 if $> != 0;

    my $uid = getpwnam $user;

    for my $pid ($engine, $supervisor) {
        my $name = $pid == $engine ? 'engine' : 'supervisor';

        is(field($pid, 'Uid'), "$uid\t$uid\t$uid\t$uid", "uid of the $name");
        like(field($pid, 'CapPrm'), qr/^0+$/, "$name without capabilities");
        is(field($pid, 'Groups'), join(' ', groups($user)),
           "groups of the $name");
    }
}

is_deeply(foreign_fds($engine), [], 'the engine inherited no descriptor');
is_deeply(foreign_fds($supervisor), [], 'nor did the supervisor');
is(readlink "/proc/$engine/cwd", '/', 'its directory is /');

my $env = slurp("/proc/$engine/environ");
unlike($env, qr/NGX_MISTRAL|NGINX=|HOME=/, 'its environment is new');
unlike(slurp("/proc/$engine/cmdline"), qr/answer/,
       'its command line tells nothing');

is(nginx('-t'), 0, 'nginx -t beside it');
is(nginx('-s', 'reopen'), 0, 'nginx -s reopen');
sleep 0.3;
is(engine(), $engine, 'the engine goes on');
is(scalar(programs()), 2, 'no other process');
is(answer(20), substr($text, 0, 20), 'it answers');

# where mistral_pass may stand

is((post(1, '/var', 'm=m'))[0], 200, 'mistral_pass with a variable');
is((post(1, '/var', 'm=x'))[0], 404, 'whose value is no model');
is((post(1, '/if', 'a=1'))[0], 200, 'in "if"');
is((post(1, '/if', 'b=1'))[0], 404, 'the location has none then');
is((post(1, '/beside', 'b=1'))[0], 200, 'beside "if"');
like((post(1, '/beside', 'a=1'))[1], qr/^HTTP\S+ 200.*^X-If: yes/ms,
     'the "if" taken');
is((post(1, '/except', 'a=1'))[0], 200, 'with limit_except');
is((get('/except/models'))[0], 403, 'the other methods');

no_alerts('start');

like(slurp("$prefix/logs/error.log"),
     qr/\[notice\] \d+#\d+: mistral model "m": [^\n]*ready/,
     'its log lines go through nginx');

# reloads with a stream, nothing changed

my $s = stream(150);
my $fds = fds(master());

for my $i (1 .. 5) {
    ok(reload(), "reload $i");
    is(engine(), $engine, 'the engine is the same');
    is(answer(4), substr($text, 0, 4), 'new workers have it');
}

is(finish($s), substr($text, 0, 150), 'the stream is complete');
ok($s->{buf} =~ /data: \[DONE\]/, 'with its end');
is(scalar(programs()), 2, 'two processes as before');
ok(wait_for(sub { !grep { cmdline($_) =~ /shutting down/ } children() }),
   'old workers leave');
ok(wait_for(sub { fds(master()) == $fds }),
   'the master has as many descriptors as before');
no_alerts('reloads');

# the engine dies

$s = stream(1000);
kill 'KILL', $engine;

my $ended = finish($s);
ok(length $ended < 1000 && $s->{buf} !~ /\[DONE\]/,
   'a dead engine ends the stream');
like($s->{buf}, qr/"error"/, 'visibly');

my ($status, $headers) = post(4);
ok($status == 200 || $status == 503, 'meanwhile 503, or it is back already');
like($headers, qr/^Retry-After: \d+/m, 'with Retry-After') if $status == 503;

ok(ready(), 'it comes back');
isnt(engine(), $engine, 'another process');
is(parent(engine()), $supervisor, 'of the same supervisor');
is(status('restarts'), 1, 'counted once');
is(answer(30), substr($text, 0, 30), 'and it answers, from a 0700 directory');
is(status('queue_places'), 0, 'no queue place is lost');

$engine = engine();

like(log_since(),
     qr/\[(error|alert|crit)\] [^\n]*mistral model "m": [^\n]*engine/,
     'the log tells');
mark();

# a worker dies

my $mate = stream(60);
$s = stream(1000);
my ($victim) = grep { has_peer($_, $s) } workers();
ok($victim, 'a worker has the stream');

my @places = map { has_peer($victim, $_) } $mate, $s;
kill 'KILL', $victim if $victim;

finish($s);
ok($s->{buf} !~ /\[DONE\]/, 'kill -9 of its worker ends it');
finish($mate) if $places[0];
is(finish($mate), substr($text, 0, 60), 'the other worker goes on')
    if !$places[0];
ok(wait_for(sub { status('slots_reclaimed') >= 1 }),
   'the engine takes the slot back');
ok(wait_for(sub { status('running') == 0 && status('queue_places') == 0 }),
   'and what it held');
is(engine(), $engine, 'the engine is the same');
is(answer(4), substr($text, 0, 4), 'the new worker has it');
no_alerts('worker killed', qr/exited on signal 9/);

# an engine that hangs

conf(model => 'path null:text=closed/answer,rate=50; engine_timeout 2s;');
ok(reload(), 'reload with another engine_timeout');
is(engine(), $engine, 'which is no reason for another engine');

$s = stream(1000);
kill 'STOP', $supervisor;
kill 'STOP', $engine;
$began = time;
finish($s);
ok($s->{buf} !~ /\[DONE\]/, 'an engine that hangs ends the stream');
ok(time - $began < 5, 'soon after engine_timeout');
is((get('/healthz'))[0], 503, 'health tells');
is((post(4))[0], 503, 'requests get 503');
like(log_since(), qr/\[error\] [^\n]*the engine hangs/, 'the log, too');
is(engine(), $engine, 'it is still that engine');
$began = time;
my $restarts = status('restarts');
kill 'CONT', $supervisor;
ok(ready(), 'its supervisor brings another one');
ok(time - $began < 4, 'within seconds');
ok(!alive($engine), 'the hung one was killed');
isnt(engine(), $engine, 'this is another process');
is(parent(engine()), $supervisor, 'of the same supervisor');
is(status('restarts'), $restarts + 1, 'counted once');
is(answer(4), substr($text, 0, 4), 'it answers');
ok(wait_for(sub { status('running') == 0 && status('queue_places') == 0 }),
   'and no queue place is lost');

my @hung = log_since() =~ /\[alert\] ([^\n]*engine process \d+[^\n]*)/g;
is(scalar(@hung), 1, 'one line of the supervisor');
like($hung[0], qr/hung, its last heartbeat was \d+ ms old .*killed/,
     'says why');
no_alerts('hung engine', qr/engine process \d+ hung/);

$engine = engine();
kill 'STOP', $engine;
$began = time;
ok(wait_for(sub { !alive($engine) }), 'an idle engine that hangs is killed');
cmp_ok(time - $began, '>', 1.5, 'not before engine_timeout');
cmp_ok(time - $began, '<', 5, 'but soon after');
ok(ready(), 'and comes back');
is(answer(4), substr($text, 0, 4), 'it answers');
no_alerts('hung idle engine', qr/engine process \d+ hung/);

$engine = engine();
$supervisor = parent($engine);

# an engine that writes nonsense: under the worker's feet, while it stands

SKIP: {
    skip 'not root', 8 if $> != 0;

    $s = stream(400);
    ($victim) = grep { has_peer($_, $s) } workers();
    kill 'STOP', $victim;
    sleep 0.2;
    spoil_rings($engine);
    kill 'CONT', $victim;
    finish($s);
    ok($s->{buf} !~ /\[DONE\]/, 'nonsense in the ring ends the stream');
    my @told = log_since()
               =~ /\[alert\] ([^\n]*broken record from the engine)/g;
    is(scalar(@told), 1, 'the log tells once');
    ok(alive($victim), 'the worker lives');
    ok(wait_for(sub { grep { (get('/healthz'))[0] == 503 } 1 .. 8 }),
       'to it the engine is down');

    kill 'KILL', $engine;
    ok(wait_for(sub { engine() != $engine
                      && !grep { (get('/healthz'))[0] != 200 } 1 .. 8 }),
       'until there is another one');
    isnt(engine(), $engine, 'which is another process');
    ok(!(grep { answer(4) ne substr($text, 0, 4) } 1 .. 16),
       'then all workers answer');
    no_alerts('broken records', qr/broken record|on signal|died/);
}

$engine = engine();
$supervisor = parent($engine);

# the supervisor dies: its engine brings another one

$s = stream(150);
$mate = stream(40);
@all = ();

for my $i (1 .. 3) {
    $supervisor = another_supervisor($supervisor);
    ok($supervisor, "kill -9 of the supervisor, $i: there is another one");
    push @all, $supervisor if $i < 3;
    is(engine(), $engine, 'the engine is the same');
    is((get('/healthz'))[0], 200, 'and ready');
    is(answer(4), substr($text, 0, 4), 'it answers');
}

is(finish($mate), substr($text, 0, 40), 'a stream over it is complete');
is(finish($s), substr($text, 0, 150), 'and one over all of them');
ok($s->{buf} =~ /data: \[DONE\]/, 'with its end');
is_deeply([ programs() ], [ sort { $a <=> $b } $engine, $supervisor ],
          'one supervisor, one engine');
ok(!(grep { -e "/proc/$_" } @all), 'no zombie');
is(field($supervisor, 'NoNewPrivs'), '1', 'it can gain no privilege');
is_deeply(foreign_fds($supervisor), [], 'and has no other descriptor');

SKIP: {
    skip 'not root', 2 if $> != 0;

    my $uid = getpwnam $user;

    is(field($supervisor, 'Uid'), "$uid\t$uid\t$uid\t$uid", 'its uid');
    is((stat "/proc/$supervisor/fd")[4], 0, 'nobody of that user traces it');
}

ok(reload(), 'a reload');
is(engine(), $engine, 'keeps the engine');
ok(alive($supervisor), 'and the supervisor');
no_alerts('supervisor killed');

$restarts = status('restarts');
kill 'KILL', $engine;
ok(wait_for(sub { my $e = engine(); $e > 0 && $e != $engine && ready(0.1) }),
   'an engine that dies under the new supervisor comes back');
$engine = engine();
is(parent($engine), $supervisor, 'as its child');
is(status('restarts'), $restarts + 1, 'counted once');
is(answer(4), substr($text, 0, 4), 'it answers');
no_alerts('engine killed after its supervisor', qr/engine process \d+ died/);

# supervisor and engine die together

kill 'STOP', $supervisor;
kill 'KILL', $engine, $supervisor;
ok(gone($supervisor, $engine), 'engine and supervisor are killed');
ok(wait_for(sub { (post(4))[0] == 503 }), 'requests get 503');
($status, $headers) = post(4);
like($headers, qr/^Retry-After: \d+/m, 'with Retry-After');
is((get('/healthz'))[0], 503, 'not ready');
like(log_since(), qr/the engine and its supervisor are gone/, 'the log tells');

ok(reload(), 'reload');
ok(ready(), 'brings it back');
isnt(engine(), $engine, 'another engine');
is(scalar(programs()), 2, 'one supervisor, one engine');
is(answer(30), substr($text, 0, 30), 'it answers');
no_alerts('both killed');

# configurations that do not hold

$engine = engine();
$supervisor = parent($engine);

write_file("$prefix/nginx.conf", "syntax error;");
isnt(nginx('-s', 'reload'), 0, 'a broken configuration is refused');
kill 'HUP', master();
ok(wait_for(sub { log_since() =~ /unknown directive "syntax"/ }),
   'by the running master too');
is(answer(4), substr($text, 0, 4), 'it serves on');

conf(model => 'path null:text=closed/answer,rate=50,len=77;',
     http => "mistral_program $prefix/gone;");
kill 'HUP', master();
ok(wait_for(sub { log_since() =~ /cannot run the engine program/ }),
   'a changed engine without a program is refused');
is(engine(), $engine, 'the old one goes on');
is(answer(4), substr($text, 0, 4), 'and serves');

my $other = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')
    or die $!;
conf(model => 'path null:text=closed/answer,rate=50,len=77;',
     main => 'error_log logs/error.log notice;',
     server => 'listen 127.0.0.1:' . $other->sockport . ';');
kill 'HUP', master();
ok(wait_for(sub { log_since() =~ /still could not bind/ }, 10),
   'a changed engine and an address in use');
close $other;
is(engine(), $engine, 'rolled back');
is(scalar(programs()), 2, 'and nothing was started');
is(answer(4), substr($text, 0, 4), 'it serves');
mark();

# another engine beside the old one

conf();
ok(reload(), 'back to what was');
is(engine(), $engine, 'the same engine');

$s = stream(120);
conf(model => 'path null:text=closed/answer,rate=100;');
ok(reload(), 'reload with a changed engine');
ok(wait_for(sub { my $e = engine(); $e && $e != $engine && ready(0.1) }),
   'a new engine');
is(scalar(programs()), 4, 'beside the old one');
is(answer(4), substr($text, 0, 4), 'it answers');
is(finish($s), substr($text, 0, 120), 'the old stream completes');
ok(gone($engine, $supervisor), 'then the old engine leaves');
ok(alive(engine()), 'the new one stays');
ok(wait_for(sub { fds(master()) == $fds }),
   'the master has as many descriptors as before');
no_alerts('changed engine');

# another engine after the old one

$engine = engine();
$supervisor = parent($engine);
$s = stream(100);
conf(model => 'path null:text=closed/answer,rate=50; reload drain;');
ok(reload(), 'reload drain with a changed engine');
is(scalar(programs()), 3, 'a supervisor beside the old engine');
($status, $headers) = post(4);
is($status, 503, 'requests get 503');
like($headers, qr/^X-Mistral-Shed-Reason: draining\r?$/m, 'draining');
like((get('/healthz'))[2], qr/"status":"draining"/, 'health says so');
ok(alive($engine), 'the old engine is there');

# and a third one, which waits for the second, which waits for the first

conf(model => 'path null:text=closed/answer,rate=70; reload drain;');
ok(reload(), 'reload drain once more');
is(scalar(programs()), 4, 'two supervisors wait');
is((post(4))[0], 503, 'requests get 503');
is(finish($s), substr($text, 0, 100), 'the old stream completes');
ok(gone($engine, $supervisor), 'the old engine leaves');
ok(ready(), 'then the new one comes');
ok(wait_for(sub { programs() == 2 }), 'and is the only one');
is(answer(4), substr($text, 0, 4), 'it answers');
like(log_since(), qr/waiting for the engine before this one/, 'the log tells');
no_alerts('reload drain');

# nginx ends meanwhile, and what waited does, too

$s = stream(1000);
conf(model => 'path null:text=closed/answer,rate=50; reload drain;');
ok(reload(), 'reload drain');
is(scalar(programs()), 3, 'a supervisor waits');
$old = master();
@all = (programs(), $old, children());
is(nginx('-s', 'stop'), 0, 'stop');
ok(gone(@all), 'nothing is left');

# nginx's own words of a stream that a worker had when it was shutting down

no_alerts('stop while draining', qr/open socket #\d+ left|: aborting$/);

conf(model => 'path null:text=closed/answer,rate=100;');
is(run(0), 0, 'start');
ok(ready(), 'ready');
mark();

# two engines, then none

$engine = engine();
$supervisor = parent($engine);

conf(model => 'path null:text=closed/answer,rate=100;',
     http => 'mistral_model second { path null:; }');
ok(reload(), 'reload with a second model');
ok(wait_for(sub { programs() == 4 && ready(0.1) }), 'two engines');
is(engine(), $engine, 'the first is the same');

conf(none => 1);
ok(reload(), 'reload without a model');
ok(gone($engine, $supervisor), 'the engine leaves');
ok(wait_for(sub { programs() == 0 }), 'all of them');
is((get('/plain'))[0], 200, 'nginx goes on');

conf();
ok(reload(), 'reload with the model again');
ok(ready(), 'it is back');
no_alerts('models come and go');

# a new binary

$engine = engine();
$supervisor = parent($engine);

$old = master();
$s = stream(150);

kill 'USR2', $old;
ok(wait_for(sub { -e "$prefix/nginx.pid.oldbin" && master() != $old }),
   'USR2: a new master');
sleep 0.5;
is(scalar(programs()), 2, 'with the same engine');
kill 'WINCH', $old;
sleep 0.5;
is(engine(), $engine, 'also when the old workers leave');
is(answer(4), substr($text, 0, 4), 'new workers have it');
kill 'QUIT', $old;
is(finish($s), substr($text, 0, 150), 'a stream over it is complete');
ok(gone($old), 'the old master leaves');
is(engine(), $engine, 'the engine stays');
ok(reload(), 'reload of the new master');
sleep 0.5;
is(engine(), $engine, 'keeps the engine');
no_alerts('USR2');

# a new binary with another engine

$engine = engine();
$supervisor = parent($engine);
$old = master();
$s = stream(100);
conf(model => 'path null:text=closed/answer,rate=100;');

kill 'USR2', $old;
ok(wait_for(sub { -e "$prefix/nginx.pid.oldbin" && master() != $old
                  && programs() == 4 }),
   'USR2 with a changed engine: there are two');
kill 'QUIT', $old;
is(finish($s), substr($text, 0, 100), 'the old stream completes');
ok(gone($old, $engine, $supervisor), 'the old engine leaves with its master');
ok(ready() && engine() != $engine, 'the new one stays');
is(answer(4), substr($text, 0, 4), 'and answers');
no_alerts('USR2 with a changed engine');

# a request ring that is full: who has a place waits, whoever leaves does so

$engine = engine();
kill 'STOP', $engine;

my @clients = map { request('POST /v1/chat/completions',
                            chat(20, 1, 'x' x 25000)) } 1 .. 24;
my @told = IO::Select->new(@clients)->can_read(1);

is(scalar @told, 0, 'what finds no room in the ring is not refused');
close $_ for splice @clients, 0, 8;
close $_ for splice @clients, -8;
sleep 0.5;
kill 'CONT', $engine;

my @whole = grep { join('', read_all($_, 20)) =~ /\[DONE\]/ } @clients;

is(scalar @whole, 8, 'those that stayed get their answer');
ok(wait_for(sub { status('running') == 0 && status('queue_places') == 0 }),
   'CANCELs that found no room are sent later');
is(answer(30), substr($text, 0, 30), 'and the engine answers');
no_alerts('full ring');

# the ends

$s = stream(60);
$old = master();
@all = (programs(), $old, children());
is(nginx('-s', 'quit'), 0, 'quit');
is(finish($s), substr($text, 0, 60), 'completes its streams');
ok(gone(@all), 'then nothing is left');
is_deeply([ programs() ], [], 'no engine');

for my $mode ([ 'TERM', '' ], [ 'KILL', '' ], [ 'QUIT', 'daemon off;' ],
              [ 'QUIT', 'daemon off; master_process off;' ],
              [ 'TERM', 'master_process off;' ])
{
    my ($sig, $main) = @$mode;

    conf(main => $main);

    my $pid = run($main =~ /daemon off/);
    ok(ready(), "start with \"$main\"");
    is(answer(10), substr($text, 0, 10), 'answers');

    @all = (programs(), master(), children());
    is(scalar(programs()), 2, 'one supervisor, one engine');

    if ($sig eq 'KILL') {
        my @workers = workers();

        kill 'KILL', master();
        sleep 0.5;
        is(answer(10), substr($text, 0, 10),
           'without their master workers and engine go on');
        kill 'TERM', @workers;

    } else {
        kill $sig, master();
    }

    waitpid $pid, 0 if $pid;
    ok(gone(@all), "nothing is left after $sig");
}

# what a killed supervisor was replaced by ends with nginx, too, even if it
# stands still

for my $stop (0, 1) {
    conf();
    run(0);
    ok(ready(), 'start');
    $supervisor = another_supervisor(parent($engine = engine()));
    ok($supervisor, 'kill -9 of the supervisor: there is another one');
    kill 'STOP', $supervisor if $stop;
    @all = ($engine, master(), children());
    is(nginx('-s', 'quit'), 0, 'quit');
    ok(gone(@all), 'nginx and engine leave');
    kill 'CONT', $supervisor;
    ok(gone($supervisor), 'the new supervisor, too');
    is_deeply([ programs() ], [], 'nothing is left');
}

# a master killed while its workers still have the engine, then a reload
# without a master: it must not crash

conf(main => 'master_process off;');
run(0);
ok(ready(), 'start without a master');
@all = (programs(), master());
kill 'HUP', master();
sleep 0.5;
ok(alive(master()), 'a reload without a master does not crash');
kill 'TERM', master();
ok(gone(@all), 'nothing is left');

unlike(slurp("$prefix/logs/error.log"), qr/Sanitizer|exited on signal 11/,
       'no crash at all');

done_testing();


# configuration and nginx

sub conf {
    my %o = (main => '', http => '', server => '',
             model => 'path null:text=closed/answer,rate=50;', @_);

    my $pass = $o{none} ? '' : <<'END';
        location /v1/ { mistral_pass m; }
        location /var/ { mistral_pass $arg_m; }
        location /if/ { if ($arg_a) { mistral_pass m; } }
        location /beside/ {
            mistral_pass m;
            if ($arg_a) { add_header X-If yes; }
        }
        location /except/ {
            mistral_pass m;
            limit_except POST { deny all; }
        }
        location = /status { mistral_status json; }
END
    my $model = $o{none} ? '' : "mistral_model m { $o{model} }";
    my $run_as = $> == 0 ? "user $user;" : '';
    my $log = $o{main} =~ /error_log/ ? '' : 'error_log logs/error.log notice;';

    write_file("$prefix/nginx.conf", <<"END");
load_module closed/module.so;
pid               $prefix/nginx.pid;
worker_processes  2;
env               LD_PRELOAD;
env               ASAN_OPTIONS;
env               UBSAN_OPTIONS;
$log
$run_as
$o{main}
events { worker_connections 256; }
http {
    access_log             off;
    client_body_temp_path  temp;
    proxy_temp_path        temp;
    fastcgi_temp_path      temp;
    uwsgi_temp_path        temp;
    scgi_temp_path         temp;
    $model
    $o{http}
    server {
        listen 127.0.0.1:$port;
        $o{server}
        location = /healthz { mistral_health ready; }
        location = /plain { return 200 plain; }
        $pass
    }
}
END
}


# nginx with its output into a pipe that is read to the end: whoever keeps it
# open stops us here

sub nginx {
    my $out = qx{$nginx -p $prefix/ -c nginx.conf -e logs/error.log @_ 2>&1};

    diag $out if $? != 0 && "@_" !~ /reload/;
    return $?;
}


# until new workers have taken over

sub reload {
    my %old = map { $_ => 1 } workers();

    return 0 if nginx('-s', 'reload') != 0;

    return wait_for(sub {
        my @new = workers();
        @new == 2 && !grep { $old{$_} } @new;
    });
}


sub run {
    my ($foreground) = @_;

    if (!$foreground) {
        is(nginx(), 0, 'nginx starts');
        return 0;
    }

    my $pid = fork() // die $!;

    if ($pid == 0) {
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        exec $nginx, '-p', "$prefix/", '-c', 'nginx.conf', '-e',
             'logs/error.log';
    }

    wait_for(sub { -s "$prefix/nginx.pid" });

    return $pid;
}


# processes: the program was copied, so its path is ours alone

sub programs {
    my @pids;

    for my $dir (glob '/proc/[0-9]*') {
        my $exe = readlink "$dir/exe";

        push @pids, $dir =~ /(\d+)$/ if defined $exe && $exe eq $program
                                        && alive($dir =~ /(\d+)$/);
    }

    @pids = sort { $a <=> $b } @pids;
    return @pids;
}


sub engine { return status('engine_pid') }

# kill -9 of this one; the log tells of the next

sub another_supervisor {
    my ($old) = @_;
    my $new;

    kill 'KILL', $old;
    wait_for(sub { ($new) = log_since()
                            =~ /supervisor (\d+): supervisor $old died, /;
                   $new && alive($new) });

    return $new // 0;
}

sub master {
    my ($pid) = slurp("$prefix/nginx.pid") =~ /(\d+)/;
    return $pid // 0;
}

sub children {
    my $master = master();
    return grep { (parent($_) // 0) == $master }
           map { /(\d+)$/ } glob '/proc/[0-9]*';
}

sub workers {
    return grep { cmdline($_) =~ /worker process$/ } children();
}

sub parent {
    my ($pid) = @_;
    my $ppid = field($pid, 'PPid');
    return $ppid;
}

sub cmdline {
    my $c = slurp("/proc/$_[0]/cmdline");
    $c =~ s/\0+$//;
    $c =~ s/\s+$//;
    return $c;
}

sub field {
    my ($pid, $name) = @_;
    my ($value) = slurp("/proc/$pid/status") =~ /^$name:\s*(.*?)\s*$/m;
    return $value;
}

sub alive {
    my ($pid) = @_;
    my $state = field($pid, 'State');
    return defined $state && $state !~ /^Z/;
}

sub gone {
    my @pids = @_;
    return wait_for(sub { !grep { alive($_) } @pids })
           || diag(join "\n", map { "$_: " . cmdline($_) }
                              grep { alive($_) } @pids) && 0;
}

sub fds {
    my @fds = glob "/proc/$_[0]/fd/*";
    return scalar @fds;
}

sub groups {
    my ($name) = @_;
    my $gid = (getpwnam $name)[3];
    my %g = ($gid => 1);

    while (my @g = getgrent) {
        $g{$g[2]} = 1 if grep { $_ eq $name } split ' ', $g[3];
    }

    return sort { $a <=> $b } keys %g;
}


# descriptors of the contract: null, pipes, eventfds, segment, log, model

sub foreign_fds {
    my ($pid) = @_;
    my @bad;

    for my $fd (map { /(\d+)$/ } glob "/proc/$pid/fd/*") {
        my $to = readlink "/proc/$pid/fd/$fd";

        next if !defined $to;
        next if $to =~ m{^(/dev/null|pipe:|anon_inode:|/memfd:mistral)};
        next if $to eq "$prefix/logs/error.log" || $to eq "$closed/answer";
        next if $to eq $program;               # of itself, for restarts

        push @bad, "$fd -> $to";
    }

    return \@bad;
}


# all bytes of all rings; the head of the segment tells where they are

sub spoil_rings {
    my ($pid) = @_;

    open my $fh, '+<:raw', "/proc/$pid/fd/3" or die "segment: $!";
    sysread $fh, my $head, 48;

    my ($size, $n, $req, $rsp) = (unpack 'Q4 L4', $head)[2, 4, 5, 6];
    my $at = $size - $n * ($req + $rsp);

    # slots are claimed from the first on: enough for all our workers

    for my $i (0 .. 7) {
        sysseek $fh, $at + $i * ($req + $rsp) + $req, 0;
        syswrite $fh, "\377" x $rsp;
    }
}


# does this process hold the other end of our socket?

sub has_peer {
    my ($pid, $s) = @_;
    my $want = sprintf '%04X', $s->{sock}->sockport;
    my $inode;

    for (split /\n/, slurp('/proc/net/tcp')) {
        my @f = split ' ';
        $inode = $f[9] if @f > 9 && $f[2] =~ /:$want$/
                          && $f[1] =~ sprintf(':%04X$', $port);
    }

    return grep { (readlink($_) // '') eq "socket:[$inode]" }
           glob "/proc/$pid/fd/*" if $inode;
    return;
}


# HTTP

sub request {
    my ($head, $body) = @_;

    my $sock = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port",
                                     Timeout => 5) or return;
    print $sock "$head HTTP/1.1\r\nHost: t\r\nConnection: close\r\n",
                defined $body ? "Content-Type: application/json\r\n"
                                . 'Content-Length: ' . length($body) . "\r\n"
                              : '', "\r\n", $body // '';
    return $sock;
}

sub get {
    my ($uri) = @_;
    my $sock = request("GET $uri") or return 0;
    return reply(join '', read_all($sock, 10));
}

sub reply {
    my ($all) = @_;
    my ($head, $body) = split /\r\n\r\n/, $all // '', 2;
    my ($code) = ($head // '') =~ m{^HTTP/1\.1 (\d+)};
    return ($code // 0, $head // '', $body // '');
}

sub chat {
    my ($n, $stream, $prompt) = @_;
    my $flag = $stream ? 'true' : 'false';
    $prompt //= 'hi';
    return qq({"model":"m","max_tokens":$n,"temperature":0,"stream":$flag,)
           . qq("messages":[{"role":"user","content":"$prompt"}]});
}

sub post {
    my ($n, $prefix, $args) = @_;
    my $uri = ($prefix // '/v1') . '/chat/completions'
              . (defined $args ? "?$args" : '');
    my $sock = request("POST $uri", chat($n)) or return 0;
    return reply(join '', read_all($sock, 20));
}

sub answer {
    my ($n) = @_;
    my ($status, $head, $body) = post($n);
    my ($content) = $body =~ /"content":\s*"([^"]*)"/;
    return $content // "$status $body";
}


# a stream is open when its first token is here

sub stream {
    my ($n) = @_;
    my $sock = request('POST /v1/chat/completions', chat($n, 1))
        or die "no stream";
    my $s = { sock => $sock, buf => '' };

    wait_for(sub { read_some($s, 0.1); $s->{buf} =~ /"content":"[^"]/ }, 10)
        or diag "no stream: $s->{buf}";

    return $s;
}

sub read_some {
    my ($s, $timeout) = @_;
    return 0 if !IO::Select->new($s->{sock})->can_read($timeout);
    return sysread $s->{sock}, $s->{buf}, 65536, length $s->{buf};
}

sub finish {
    my ($s) = @_;
    my $end = time + 30;

    while (time < $end) {
        my $n = read_some($s, 1);
        last if !defined $n
                || ($n == 0 && IO::Select->new($s->{sock})->can_read(0));
    }

    close $s->{sock};

    return join '', $s->{buf} =~ /"delta":\{[^}]*?"content":"([^"]*)"/g;
}

sub read_all {
    my ($sock, $timeout) = @_;
    my $s = { sock => $sock, buf => '' };
    my $end = time + $timeout;

    while (time < $end) {
        my $n = read_some($s, $end - time);
        last if !$n;
    }

    close $sock;
    return $s->{buf};
}

sub status {
    my ($name) = @_;
    my ($value) = (get('/status'))[2] =~ /"$name":(\d+)/;
    return $value // -1;
}

sub ready {
    my ($timeout) = @_;
    return wait_for(sub { ((get('/healthz'))[0] // 0) == 200 },
                    $timeout // 10);
}


# the rest

sub wait_for {
    my ($what, $timeout) = @_;
    my $end = time + ($timeout // 8);

    while (time < $end) {
        return 1 if $what->();
        sleep 0.02;
    }

    return 0;
}

sub log_since {
    return substr slurp("$prefix/logs/error.log"), $marked;
}

sub mark { $marked = -s "$prefix/logs/error.log" }

sub no_alerts {
    my ($name, $but) = @_;
    my @bad = grep { /\[(alert|emerg)\]/ && !($but && /$but/) }
              split /\n/, log_since();

    ok(!@bad, "no alert in the log: $name") or diag join "\n", @bad;
    mark();
}

sub slurp {
    my ($path) = @_;
    local $/;
    open my $fh, '<', $path or return '';
    return scalar(<$fh>) // '';
}

sub write_file {
    my ($path, $content) = @_;
    open my $fh, '>', $path or die "$path: $!";
    print $fh $content;
    close $fh;
}

sub free_port {
    my $sock = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')
        or die $!;
    return $sock->sockport;
}

END {
    my $status = $?;

    # what a failed check left behind, by its own pids only

    if (-e "$prefix/nginx.pid") {
        kill 'TERM', grep { /^\d+$/ } master();
        sleep 0.5;
    }

    kill 'KILL', programs();
    $? = $status;
}
