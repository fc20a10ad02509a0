#!/usr/bin/perl

# Files that are not as they should be, or change while they are in use: the
# program, the model, their permissions.

use warnings;
use strict;

use lib 't/lib';
use File::Copy qw/ copy /;
use List::Util qw/ uniq /;
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
my $program = $S->{program};
my $good = "$S->{closed}/good";
my ($engine, $supervisor);

time_out(150);
copy($program, $good) or die $!;
chmod 0755, $good;

# a program that is none: nginx -t, a start and a reload refuse it with one
# sentence

my @bad = (
    [ 'missing', sub { unlink $program },
      qr/the engine program is neither "\S+", beside the module, nor/ ],
    [ 'not executable', sub { chmod 0644, $program },
      qr/cannot run the engine program "\S+" \(13: Permission denied/ ],
    [ 'a directory', sub { unlink $program; mkdir $program },
      qr/cannot run the engine program "\S+" \(13: Permission denied/ ],
    [ 'empty', sub { text_program('') },
      qr/cannot run the engine program "\S+" \(8: Exec format error/ ],
    [ 'a script without interpreter', sub { text_program("#!/no/such\n") },
      qr/cannot run the engine program "\S+", its interpreter is missing/ ],
    [ 'silent', sub { text_program("#!/bin/sh\nexit 3\n") },
      qr/"\S+" exited with code 3 without an answer/ ],
    [ 'crashing', sub { text_program("#!/bin/sh\nkill -SEGV \$\$\n") },
      qr/"\S+" was killed by signal 11 before it answered/ ],
    [ 'complaining', sub { text_program("#!/bin/sh\necho no lib >&2\n") },
      qr/the engine program "\S+" failed: no lib/ ],
    [ 'of another layout',
      sub { text_program("#!/bin/sh\necho ok layout=0123456789abcdef\n") },
      qr/answered "ok layout=0123456789abcdef", .*: restart nginx after/ ],
);

conf();
$S->{quiet} = 1;

for my $bad (@bad) {
    my ($name, $make, $why) = @$bad;

    restore();
    $make->();

    isnt(nginx('-t'), 0, "$name: nginx -t fails");
    like($S->{out}, $why, 'and says why');
    is(scalar(() = $S->{out} =~ /\[emerg\]/g), 1, 'in one line');
}

isnt(nginx(), 0, 'a start, too');
is_deeply([ programs() ], [], 'nothing was started');

restore();
run_nginx();
ok(ready(), 'with the right program: ready');
mark();

for my $bad (@bad) {
    my ($name, $make, $why) = @$bad;

    restore();
    $make->();

    # another engine would be needed

    conf(model => 'path null:text=closed/answer,rate=50,len=99;');
    my $before = -s $S->{log};
    signal 'HUP', master();
    ok(wait_for(sub { substr(log_text(), $before) =~ /\[emerg\]/ }),
       "$name: a reload is refused");
    like(substr(log_text(), $before), $why, 'for that reason');
}

$engine = engine();
$supervisor = supervisor();
is(scalar(programs()), 2, 'nothing else was started');
is(answer(4), text(4), 'it serves on');

# an unchanged engine needs no program

conf();
text_program("#!/bin/sh\nexit 3\n");
ok(reload(), 'an unchanged engine with a broken program: a reload');
is(engine(), $engine, 'keeps it');
unlink $program;
ok(reload(), 'without a program: a reload');
is(engine(), $engine, 'keeps it, too');
is(answer(4), text(4), 'it answers');

# nor does the next engine: it is the supervisor's own image

signal 'KILL', $engine;
ok(wait_for(sub { my $e = engine(); $e > 0 && $e != $engine && ready(0.1) }),
   'killed, it comes back of the old image');
like(readlink '/proc/' . engine() . '/exe', qr/deleted/, 'which has no name')
    if $> == 0;
is(answer(4), text(4), 'it answers');
no_alerts('a broken program', qr/\[emerg\]|exited on signal 9/);

stop();
restore();

# the model's file is replaced: the running engine has the old one, a reload
# brings the new one

conf();
run_nginx();
ok(ready(), 'ready');
$engine = engine();
write_file("$S->{closed}/new", 'Another text. ' x 9);
rename "$S->{closed}/new", "$S->{closed}/answer" or die $!;
is(answer(20), text(20), "the model's file was replaced: as before");
signal 'KILL', $engine;
ok(wait_for(sub { my $e = engine(); $e > 0 && $e != $engine && ready(0.1) }),
   'killed and back');
is(answer(20), text(20), 'as before: it is the file that was opened');
$engine = engine();
ok(reload(), 'a reload');
ok(wait_for(sub { my $e = engine(); $e > 0 && $e != $engine && ready(0.1) }),
   'brings another engine');
is(answer(13), 'Another text.', 'with the new file');
no_alerts('a replaced model', qr/exited on signal 9/);

# it is truncated: what is loaded is loaded, the next engine refuses it, with
# one line each time, and a reload with a right file is the end of that

truncate "$S->{closed}/answer", 0 or die $!;
is(answer(13), 'Another text.', "the model's file was truncated: as before");
$engine = engine();
signal 'KILL', $engine;
ok(wait_for(sub { log_since() =~ /the null model's text has 0 bytes/ }),
   'killed, the next one says what is wrong');
ok(wait_for(sub { log_since() =~ /code 78, the next one starts in 5000 ms/ }),
   'and waits');
is((post(4))[0], 503, 'requests get 503');
is((get('/healthz'))[0], 503, 'health, too');
is(scalar(() = log_since() =~ /text has 0 bytes/g), 1, 'one line each time');
write_file("$S->{closed}/answer", 'A third text. ' x 9);
ok(reload(), 'a reload with a right file');
ok(ready(), 'brings it back');
is(answer(13), 'A third text.', 'it answers');
no_alerts('a truncated model', qr/exited on signal 9/);

# it is gone: nginx -t tells, what runs goes on

$S->{quiet} = 1;
unlink "$S->{closed}/answer";
isnt(nginx('-t'), 0, "the model's file is missing: nginx -t fails");
like($S->{out}, qr/cannot open "\S+answer" of mistral_model "m" \(2:/,
     'and says why');
signal 'HUP', master();
ok(wait_for(sub { log_since() =~ /cannot open/ }), 'a reload is refused');
is(answer(13), 'A third text.', 'the engine goes on');
mkdir "$S->{closed}/answer";
isnt(nginx('-t'), 0, 'a directory');
like($S->{out}, qr/"\S+answer" of mistral_model "m" is a directory/, 'is told');
rmdir "$S->{closed}/answer";
stop();

# an engine that crashes at each start: growing pauses, one line each

write_file("$S->{closed}/answer", text());
conf();
run_nginx();
ok(ready(), 'ready');
mark();
($engine, $supervisor) = (engine(), supervisor());

SKIP: {
    skip 'prlimit is not there, or may not', 7
        if limit('1000000:unlimited') != 0;

    signal 'KILL', $engine;
    ok(wait_for(sub { deaths() >= 6 }), 'an engine that cannot start');
    like(log_since(), qr/at once.* 100 ms.* 200 ms.* 400 ms.* 800 ms.* 1600 ms/s,
         'is tried with growing pauses');
    is(deaths(), 6, 'each attempt has one line');
    is((post(4))[0], 503, 'requests get 503');
    is((get('/healthz'))[0], 503, 'health, too');
    is(limit('unlimited'), 0, 'the limit is lifted');
    ok(ready(), 'it comes back by itself when it can');
    is(answer(4), text(4), 'and answers');
    no_alerts('crashes at the start', qr/engine process \d+ exited/);
}

stop();

# a real model: the engine has its file mapped

SKIP: {
    my $model = "$Build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
    skip "no $model: make model", 9 if !-e $model;

    my $copy = "$S->{closed}/model.gguf";
    copy($model, $copy) or die $!;
    conf(model => 'path closed/model.gguf; context 512; device cpu threads=1;');
    run_nginx();
    ok(ready(60), 'a real model');
    my $text = answer(8);
    unlike($text, qr/^\d/, 'it answers');
    mark();
    $engine = engine();

    my ($ours, @nice) = map { getpriority 0, $_ } $$,
                        map { m{(\d+)$} } glob "/proc/$engine/task/*";
    is(join(' ', uniq(@nice)), $ours > 10 ? $ours : 10,
       'its threads leave the cores to workers');

    rename $copy, "$copy.old" or die $!;
    is(answer(8), $text, 'its file was renamed: the same answer');
    truncate "$copy.old", 100_000 or die $!;

    # weights were copied out of it or not: the engine goes on, or dies and is
    # told of the reason when it starts again

    my $now = answer(8);

    if ($now ne $text) {
        ok(wait_for(sub { log_since() =~ /exited on signal 7/ }),
           'truncated: SIGBUS ends the engine');
    } else {
        is($now, $text, 'truncated: the same answer');
        signal 'KILL', $engine;
    }

    ok(wait_for(sub { log_since() =~ /model\.gguf: .*exited with code 78/s },
                60), 'the next one finds what is wrong');
    is((post(4))[0], 503, 'requests get 503');

    unlink "$copy.old";
    copy($model, $copy) or die $!;
    ok(reload(), 'a reload with the right file');
    ok(ready(60), 'brings it back');
    is(answer(8), $text, 'with the same answer');
    no_alerts('a real model', qr/engine process \d+ exited on signal/);
    stop();
}

nothing_left();
done_testing();


sub stop {
    signal 'QUIT', master();
    ok(wait_for(sub { !-e $S->{pid} && !programs() }), 'nothing is left');
}

# the right one, by another inode than the last

sub restore {
    rmdir $program if -d $program;
    unlink $program;
    copy($good, $program) or die $!;
    chmod 0755, $program;
}

sub text_program {
    unlink $program;
    write_file($program, $_[0]);
    chmod 0755, $program;
}

sub deaths {
    return scalar(() = log_since() =~ /engine process \d+ exited/g);
}

# of addresses, as the supervisor's own user: root may lack that right

sub limit {
    my $as = $> == 0 ? 'setpriv --reuid ' . user() . ' --regid '
                       . (getpwnam user())[3] . ' --clear-groups' : '';

    return system("$as prlimit --pid $supervisor --as=$_[0] 2>/dev/null");
}
