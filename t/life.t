#!/usr/bin/perl

# The life of engines: what nginx starts and what not, with which rights and
# descriptors.  The other t/life_*.t: what reloads, kills, hangs, changes and
# ends them.
#
# Module, program and the model's file lie in a directory that only root can
# enter (when root runs this): engine and workers run as another user and must
# need none of these paths.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
time_out(120);

# nothing is started by who only asks

my $pass = <<'END';
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
END

conf(locations => $pass);
is(nginx('-t'), 0, 'nginx -t');
is(nginx('-T'), 0, 'nginx -T');
like($S->{out}, qr/mistral_model m/, 'which shows the configuration');
is(nginx('-t', '-q'), 0, 'nginx -t -q');
is($S->{out}, '', 'which says nothing');
is(nginx('-v'), 0, 'nginx -v');
is_deeply([ programs() ], [], 'they started nothing');

is(nginx(), 0, 'start: nobody keeps the pipe that is its output');
ok(ready(), 'ready');

my $engine = engine();
my $supervisor = parent($engine);

is_deeply([ programs() ], [ sort { $a <=> $b } $engine, $supervisor ],
          'one supervisor, one engine');
isnt(parent($supervisor), master(), 'which is no child of nginx');
is(field($engine, 'NoNewPrivs'), '1', 'the engine can gain no privilege');

SKIP: {
    skip 'not root', 6 if $> != 0;

    my $uid = getpwnam user();

    for my $pid ($engine, $supervisor) {
        my $name = $pid == $engine ? 'engine' : 'supervisor';

        is(field($pid, 'Uid'), "$uid\t$uid\t$uid\t$uid", "uid of the $name");
        like(field($pid, 'CapPrm'), qr/^0+$/, "$name without capabilities");
        is(field($pid, 'Groups'), join(' ', groups(user())),
           "groups of the $name");
    }
}

is_deeply(foreign_fds($engine), [], 'the engine inherited no descriptor');
is_deeply(foreign_fds($supervisor), [], 'nor did the supervisor');
is(readlink "/proc/$engine/cwd", '/', 'its directory is /') if $> == 0;

my $env = slurp("/proc/$engine/environ");
unlike($env, qr/NGX_MISTRAL|NGINX=|HOME=/, 'its environment is new');
unlike(slurp("/proc/$engine/cmdline"), qr/answer/,
       'its command line tells nothing');

is(nginx('-t'), 0, 'nginx -t beside it');
is(nginx('-T', '-q'), 0, 'nginx -T -q');
is(scalar(programs()), 2, 'no other process');
is(answer(20), text(20), 'it answers');

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

like(log_text(),
     qr/\[notice\] \d+#\d+: mistral model "m": [^\n]*ready/,
     'its log lines go through nginx');

# the words of -s

my @all = (programs(), master(), children());
is(nginx('-s', 'stop'), 0, 'nginx -s stop');
ok(gone(@all), 'nothing is left');
isnt(quiet('-s', 'stop'), 0, 'a second time there is nobody');

run_nginx();
ok(ready(), 'ready');
@all = (programs(), master(), children());
is(nginx('-s', 'quit'), 0, 'nginx -s quit');
ok(gone(@all), 'nothing is left');

nothing_left();
done_testing();


sub groups {
    my ($name) = @_;
    my $gid = (getpwnam $name)[3];
    my %g = ($gid => 1);

    while (my @g = getgrent) {
        $g{$g[2]} = 1 if grep { $_ eq $name } split ' ', $g[3];
    }

    return sort { $a <=> $b } keys %g;
}


sub quiet {
    local $S->{quiet} = 1;
    return nginx(@_);
}
