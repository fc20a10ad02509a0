#!/usr/bin/perl

# The engine's lines are nginx's: its files, its level, its rotation; what is
# written when no worker reads any more, too.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;

my $S = server();
time_out(120);

my $old = "$S->{prefix}/logs/error.log.1";

conf();
run_nginx();
ok(ready(), 'ready');

# rotation: rename, then reopen

my ($engine, $supervisor) = (engine(), supervisor());

rename $S->{log}, $old or die $!;
is(nginx('-s', 'reopen'), 0, 'nginx -s reopen');
ok(wait_for(sub { -e $S->{log} }), 'there is a new file');
ok(wait_for(sub { held($supervisor) eq $S->{log} && held($engine) eq $S->{log} }),
   'supervisor and engine have it') or diag held($supervisor), held($engine);

my $rotated = slurp($old);
unlike($rotated, qr/exited on signal/, 'the old file is from before');

ok(restarted(), 'the engine is killed and comes back');
ok(wait_for(sub { log_text() =~ /engine process $engine exited on signal 9/ }),
   'the supervisor says so in the new file');
ok(wait_for(sub { log_text() =~ /mistral model "m": engine \d+: ready/ }),
   'the engine, too');
unlike(slurp($old), qr/exited on signal/, 'none of it in the old one');
ok(wait_for(sub { held(engine()) eq $S->{log} }), 'the new engine has the file');

# a new supervisor, whose parent is the engine

$supervisor = another_supervisor($supervisor);
ok($supervisor, 'another supervisor');
like(log_text(), qr/supervisor $supervisor: supervisor \d+ died/,
     'says so there');

# deleted: nobody keeps its room

unlink $old, $S->{log};
is(nginx('-s', 'reopen'), 0, 'nginx -s reopen after rm');
ok(wait_for(sub { -e $S->{log} }), 'there is a new file');
ok(wait_for(sub { !grep { held($_) =~ /deleted/ } programs() }),
   'nobody has the deleted one open');

# another file and level by a reload

conf(main => 'error_log logs/other.log warn;');
ok(reload(), 'reload with another error_log');
($engine, $supervisor) = (engine(), supervisor());

my $other = "$S->{prefix}/logs/other.log";
my $before = -s $S->{log};

ok(restarted(), 'the engine is killed and comes back');
ok(wait_for(sub { slurp($other) =~ /\[alert\] [^\n]*engine process $engine died/ }),
   'the line is in that file');
unlike(slurp($other), qr/\[notice\]/, 'a notice is not, by its level');
unlike(substr(log_text(), $before), qr/engine process $engine/,
       'the other file has none');

conf();
ok(reload(), 'and back');
mark();

# the last words

my @all = (programs(), master(), children());
$supervisor = supervisor();
rename $S->{log}, $old or die $!;
is(nginx('-s', 'reopen'), 0, 'nginx -s reopen');
ok(wait_for(sub { held($supervisor) eq $S->{log} }),
   'the supervisor has the new file');
is(nginx('-s', 'quit'), 0, 'quit');
ok(gone(@all), 'nothing is left');
like(log_text(), qr{^\d{4}/\d\d/\d\d \S+ \[notice\] $supervisor\#0: \Qmistral\E}m,
     'the last words are in it, in the form of nginx');
like(log_text(), qr/supervisor $supervisor: no nginx process needs/,
     'and say why');
unlike(slurp($old), qr/no nginx process needs/, 'and not in the old one');

# they have a level, too

conf(main => 'error_log logs/error.log error;');
run_nginx();
ok(ready(), 'error_log at error: ready');
mark();
@all = (programs(), master(), children());
is(nginx('-s', 'quit'), 0, 'quit');
ok(gone(@all), 'nothing is left');
unlike(log_since(), qr/no nginx process needs/, 'no last words below it');

# standard error, in the foreground

conf(main => "daemon off;\nerror_log stderr notice;");
run_nginx(1);
ok(ready(), 'in the foreground with error_log stderr');
like(slurp("$S->{prefix}/stderr"), qr/\[notice\] [^\n]*engine \d+: ready/,
     'the lines go there');
stop_nginx();

# a file that nobody but root may write, in a directory that is closed

SKIP: {
    skip 'not root', 4 if $> != 0;

    chmod 0700, "$S->{prefix}/logs";
    conf();
    run_nginx();
    ok(ready(), 'a closed directory of logs: ready');
    ok(restarted(), 'it comes back');
    ok(wait_for(sub { log_text() =~ /exited on signal 9/ }), 'the log tells');
    stop_nginx();
    chmod 0755, "$S->{prefix}/logs";
}

nothing_left();
done_testing();


# the log file that a process has as its descriptor for last words

sub held {
    my ($pid) = @_;

    return $S->{log} if $> != 0;               # only root sees that
    return readlink("/proc/$pid/fd/7") // '';
}

sub restarted {
    $engine = engine();
    signal 'KILL', $engine;

    return wait_for(sub { my $e = engine(); $e > 0 && $e != $engine
                          && ready(0.1) });
}
