#!/usr/bin/perl

# Reloads that change something, or try to: a configuration that does not hold,
# another engine beside the old one or after it, models that come and go.

use warnings;
use strict;

use lib 't/lib';

use IO::Socket::INET;
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
time_out(160);

conf();
run_nginx();
ok(ready(), 'ready');

# configurations that do not hold

my ($engine, $supervisor) = (engine(), supervisor());
my $fds = fds(master());
my ($s, $status, $headers, $old, @all);

write_file("$S->{prefix}/nginx.conf", "syntax error;");
$S->{quiet} = 1;
isnt(nginx('-s', 'reload'), 0, 'a broken configuration is refused');
signal 'HUP', master();
ok(wait_for(sub { log_since() =~ /unknown directive "syntax"/ }),
   'by the running master too');
is(answer(4), text(4), 'it serves on');

conf(model => 'path null:text=closed/answer,rate=50,len=77;',
     http => "mistral_program $S->{prefix}/gone;");
signal 'HUP', master();
ok(wait_for(sub { log_since() =~ /cannot run the engine program/ }),
   'a changed engine without a program is refused');
is(engine(), $engine, 'the old one goes on');
is(answer(4), text(4), 'and serves');

my $other = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')
    or die $!;
conf(model => 'path null:text=closed/answer,rate=50,len=77;',
     main => 'error_log logs/error.log notice;',
     server => 'listen 127.0.0.1:' . $other->sockport . ';');
signal 'HUP', master();
ok(wait_for(sub { log_since() =~ /still could not bind/ }, 10),
   'a changed engine and an address in use');
close $other;
is(engine(), $engine, 'rolled back');
is(scalar(programs()), 2, 'and nothing was started');
is(answer(4), text(4), 'it serves');
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
is(answer(4), text(4), 'it answers');
is(finish($s), text(120), 'the old stream completes');
ok(gone($engine, $supervisor), 'then the old engine leaves');
ok(alive(engine()), 'the new one stays');
ok(wait_for(sub { fds(master()) == $fds }),
   'the master has as many descriptors as before');
no_alerts('changed engine');

# what it computes with is the engine's, too

$engine = engine();
$supervisor = parent($engine);

conf(model => 'path null:text=closed/answer,rate=100;'
              . ' device cpu activations=16;');
ok(reload(), 'reload with coarser activations');
ok(wait_for(sub { my $e = engine(); $e && $e != $engine && ready(0.1) }),
   'a new engine');
ok(gone($engine, $supervisor), 'the old engine leaves');
$engine = engine();
ok(reload(), 'reload without a change');
is(engine(), $engine, 'the same engine');
no_alerts('changed activations');

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
is(finish($s), text(100), 'the old stream completes');
ok(gone($engine, $supervisor), 'the old engine leaves');
ok(ready(), 'then the new one comes');
ok(wait_for(sub { programs() == 2 }), 'and is the only one');
is(answer(4), text(4), 'it answers');
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
is(run_nginx(0), 0, 'start');
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

# one is renamed: to the engine it is another one

conf(model => 'path null:text=closed/answer,rate=100;',
     http => 'mistral_model other { path null:; }');
$old = (grep { $_ != $engine && $_ != $supervisor
               && cmdline($_) =~ /epoch/ } programs())[0];
ok(reload(), 'reload with the second one renamed');
ok(wait_for(sub { programs() == 4 && ready(0.1) && !alive($old) }),
   'another engine has its place');
is(engine(), $engine, 'the first is the same');
like(log_since(), qr/mistral model "other": engine \d+: ready/, 'by its name');

# and swapped: the names are the other way round, both are new

conf(model => 'path null:;', http => 'mistral_model other {'
     . ' path null:text=closed/answer,rate=100; }');
ok(reload(), 'reload with both swapped');
ok(wait_for(sub { programs() == 4 && ready(0.1) && !alive($engine) }),
   'two other engines');
isnt(engine(), $engine, 'the first is another one');
is(answer(9), 'The quick', 'it answers as it is configured now');

$engine = engine();
$supervisor = parent($engine);

conf(none => 1);
ok(reload(), 'reload without a model');
ok(gone($engine, $supervisor), 'the engine leaves');
ok(wait_for(sub { programs() == 0 }), 'all of them');
is((get('/plain'))[0], 200, 'nginx goes on');

conf();
ok(reload(), 'reload with the model again');
ok(ready(), 'it is back');
no_alerts('models come and go');

stop_nginx();
nothing_left();
done_testing();
