#!/usr/bin/perl

# The state of quotas: over restarts and reloads, after kill -9 of all of
# nginx, by two nginx at once, broken or changed by hand; and the borders of
# windows.

use warnings;
use strict;

use lib 't/lib';
use IO::Socket::INET;
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
my $Dir = "$S->{prefix}/quotas";
my $File = "$Dir/tokens";

time_out(120);

restart();
killed();
by_hand();
many();
broken();
unwritable();
other_configurations();
two_servers();
borders();
without_a_master();

no_alerts('all of it', qr/exited on signal 9|uses the /);
nothing_left();
done_testing();


sub quota_conf {
    my %o = (key => '$arg_key', window => '1d', size => '1m',
             state => "state=$File", main => '', @_);

    conf(workers => 2, main => $o{main}, model => 'path null:; context 4096;',
         http => 'mistral_model slow { path null:rate=20; context 4096; }'
                 . "mistral_quota_zone $o{key} zone=q:$o{size} quota=1k "
                 . "window=$o{window} $o{state};\n"
                 . 'mistral_quota_zone $arg_other zone=other:1m quota=1k '
                 . "window=1h state=$Dir/other;"
                 . 'mistral_quota_zone $arg_key zone=short:1m quota=100 '
                 . "window=1s;\n",
         locations => 'location /both/ { mistral_pass m; mistral_quota zone=q; '
                 . 'mistral_quota zone=other; }'
                 . 'location /slow/ { mistral_pass slow; mistral_quota zone=q; }'
                 . 'location /q/ { mistral_pass m; mistral_quota zone=q; }'
                 . 'location /short/ { mistral_pass m; '
                 . 'mistral_quota zone=short; }');
}


# what the worker's end saved is there when the next nginx starts

sub restart {
    quota_conf();
    run_nginx();
    ok(ready(), 'ready');

    is(spend('alice', 10), 980, 'alice has 980 of 1000 left');
    is(spend("b%20%25%F6", 20), 960, 'a key of odd bytes');
    is(spend('alice', 5), 970, 'then 970');
    stop_nginx();

    like(slurp($File), qr/\Amistral_quota 1\n(?:\d+ \d+ \S+\n){2}end 2\n\z/,
         'the state is a file');
    like(slurp($File), qr/^\d+ 40 b%2520%2525%25F6$/m, 'with keys as text');
    is((stat $File)[2] & 07777, 0600, 'that nobody else can read');
    is((stat $Dir)[2] & 07777, 0700, 'in a directory like that');

    is(getpwuid((stat $_)[4]), user(), "$_ is the workers'") for
        $> == 0 ? ($Dir, $File) : ();

    run_nginx();
    ok(ready(), 'ready again');
    is(spend('alice', 5), 960, 'alice goes on');
    is(spend("b%20%25%F6", 5), 950, 'the other one, too');

    ok(reload(), 'reload');
    is(spend('alice', 5), 950, 'over a reload');
}


# nothing but the last seconds is lost, and no hold

sub killed {
    ok(wait_for(sub { slurp($File) =~ / 50 alice$/m }),
       'the state is saved from time to time');

    # what a request in work may still need is no part of it

    my $s = stream_of('POST /slow/completions?key=held',
                      '{"prompt":"' . 'x' x 100 . '","max_tokens":890,'
                      . '"stream":true}');

    is(left('held'), 10, 'a stream holds 990');
    ok(wait_for(sub { defined saved('held') }), 'the state has it');

    my @all = (master(), workers(), programs());
    kill 'KILL', @all;
    ok(gone(@all), 'all of it is killed');
    unlink $S->{pid};

    run_nginx();
    ok(ready(), 'ready again');
    cmp_ok(spend('alice', 5), '<=', 940, 'what was saved counts');
    cmp_ok(left('held'), '<=', 900, 'and what the stream had');
    cmp_ok(left('held'), '>=', 400, 'but not what it held');
    is((stat "$File.new")[7], undef, 'no file is left over');
}


# a changed file is what counts

sub by_hand {
    ok(wait_for(sub { slurp($File) =~ / \d+ alice$/m && saved('alice') > 50 }),
       'saved');

    my $text = slurp($File) =~ s/ \d+ alice$/ 1 alice/mr;
    write_file("$File.edit", $text);
    chown((stat $File)[4, 5], "$File.edit");
    rename "$File.edit", $File or die $!;

    # refusals save nothing: it is read without a write

    ok(wait_for(sub { left('alice') > 990 }),
       'who edits the file gives alice her tokens back');
    is(slurp($File), $text, 'and it is not written for that');

    spend('carol0', 1);
    ok(wait_for(sub { (saved('carol0') // 0) == 2 }), 'others keep theirs');
    stop_nginx();
}


# more keys than are looked at in one turn; two files in one directory

sub many {
    my $now = time;
    my $keys = 3000;

    write_file($File, "mistral_quota 1\n"
               . join('', map { int($now) . " $_ key$_\n" } 1 .. $keys)
               . "end $keys\n");
    chmod 0644, $File;
    run_nginx();
    ok(ready(), 'ready');

    is(left('key999'), 1, 'thousands of keys are read');
    is((fetch('POST /both/completions?key=key1&other=o',
              '{"prompt":"xx","max_tokens":2}'))[0], 200, 'two quotas');
    ok(wait_for(sub { (saved('key1') // 0) == 5
                      && slurp("$Dir/other") =~ /^\d+ 4 o$/m }),
       'both are saved');

    my $bad = grep { (saved_all()->{"key$_"} // -1) != $_ } 2 .. 50;

    is($bad, 0, 'as they were');
    is(scalar(keys %{ saved_all() }), $keys, 'all of them');

    is((fetch('POST /both/completions?key=key2&other=o',
              '{"prompt":"xx","max_tokens":2}'))[0], 200, 'two quotas');
    stop_nginx();
    is(saved('key2'), 6, 'at the end, too');
    like(slurp("$Dir/other"), qr/^\d+ 8 o$/m, 'of both');
    unlink $File;
}


sub broken {
    spend_and_stop();

    my $good = slurp($File);

    for my $bad (['cut off', substr($good, 0, length($good) - 8)],
                 ['zeroes', "\0" x length $good], ['empty', ''])
    {
        unlink "$File.broken";
        write_file($File, $bad->[1]);
        mark();

        is(nginx('-t'), 0, "$bad->[0]: nginx -t passes");
        is(slurp($File), $bad->[1], 'and leaves it');

        run_nginx();
        ok(ready(), 'nginx starts');
        is(spend('alice', 5), 990, 'and the quotas begin anew');

        my @said = grep { /is broken/ } split /\n/, log_since();

        is(scalar(@said), 2, 'one line each time');
        like($said[1], qr/\[error\] [^\n]*"$File", the state of mistral_quota_zone "q", is broken: [^;]+; its quotas begin anew and it is kept as "$File.broken"/,
             'says why and where it is');
        is(slurp("$File.broken"), $bad->[1], 'it is kept');
        stop_nginx();
    }

    write_file($File, $good);
    chmod 0666, $File;

    # while nginx runs, what it knows goes on

    run_nginx();
    ok(ready(), 'ready');

    my $left = spend('alice', 5);
    my $large = "$Dir/large";

    for my $bad ("x\n", "mistral_quota 1\n9223372036854775807 5 k\nend 1\n") {
        unlink "$File.broken";
        mark();
        write_file("$File.mine", $bad);
        rename "$File.mine", $File;
        ok(wait_for(sub { log_since() =~ /is broken: [^;]+; its quotas go on/ }),
           'broken while nginx runs');
        ok(wait_for(sub { -e $File && saved('alice') }), 'it is written anew');
        is(slurp("$File.broken"), $bad, 'and the other one kept');
    }

    open my $fh, '>', $large or die;
    truncate $fh, 1 << 40;
    close $fh;
    mark();
    rename $large, $File;
    ok(wait_for(sub { log_since() =~ /cannot read[^\n]+too large/i }),
       'a file that nobody could read is not read');
    is(spend('alice', 5), $left - 10, 'the quota goes on');
    stop_nginx();
    unlink $File, "$File.broken";
}


# that is said once, however often it is tried, and that it is over

sub unwritable {
    quota_conf();
    run_nginx();
    ok(ready(), 'ready');

    my $no = qr/cannot write "\Q$File\E\.new" .* \(17: /;

    mark();
    mkdir "$File.new" or die $!;                   # where it is written
    spend('dora', 1);
    ok(wait_for(sub { log_since() =~ $no }), 'a state that cannot be written');

    sleep 5;                                       # it is tried each second
    my $n = () = log_since() =~ /$no/g;
    is($n, 1, 'one line of it');

    mark();
    rmdir "$File.new" or die $!;
    ok(wait_for(sub { (saved('dora') // 0) == 2 }), 'it is written later');
    ok(wait_for(sub { log_since() =~ /\[notice\].*"q" is written again/ }),
       'and that is said');
    stop_nginx();
    unlink $File;
}


# what a reload may not change, and what it may

sub other_configurations {
    quota_conf();
    run_nginx();
    ok(ready(), 'ready');
    my $left = spend('alice', 5);

    quota_conf(key => '$arg_user');
    mark();
    nginx('-s', 'reload');
    ok(wait_for(sub { log_since() =~ /mistral_quota_zone "q" uses the "\$arg_user" key while previously it used the "\$arg_key" key/ }),
       'another key is refused');

    quota_conf(window => '1h');
    nginx('-s', 'reload');
    ok(wait_for(sub { log_since() =~ /mistral_quota_zone "q" uses the window "1h" while previously it used the window "1d"/ }),
       'another window, too');
    is(spend('alice', 5), $left - 10, 'it goes on as it was');

    # another size: the old workers' end and the new one's start are no order

    ok(wait_for(sub { (saved('alice') // 0) == 1000 - $left + 10 }), 'saved');
    quota_conf(size => '2m');
    ok(reload(), 'another size');
    like(log_since(), qr/\[warn\] [^\n]*mistral_quota_zone "q" had 1048576 bytes and has 2097152 now: what its state file does not have is lost/,
         'is a warning');
    is(left('alice'), $left - 10, 'the state is of the file');
    stop_nginx();
    quota_conf();
}


# as in a binary upgrade: two have the file, and both count

sub two_servers {
    my $first = $S;

    unlink $File;
    run_nginx();
    ok(ready(), 'one server');

    my $second = server();
    quota_conf();
    run_nginx();
    ok(ready(), 'another one with the same file');

    is(spend('alice', 10), 980, 'spends 20');
    use_server($first);
    is(spend('alice', 20), 960, 'the first one 40');
    is(spend('bob', 20), 960, 'and 40 of another');

    ok(wait_for(sub { spend('first', 1); use_server($second);
                      spend('second', 1); my $n = left('alice');
                      use_server($first); $n == 940 && left('alice') == 940 }),
       'after a while both know of 60');

    use_server($second);
    is(spend('alice', 10), 920, 'the second one again');
    stop_nginx();

    # the first one saves what it has, and finds what the second had saved

    use_server($first);
    is(spend('alice', 1), 938, 'the first one does not know yet');
    stop_nginx();
    is(saved('alice'), 82, 'nothing is lost');

    $S = $first;
}


# no more than a quota in any window, and a whole one in each

sub borders {
    quota_conf(state => '');
    run_nginx();
    ok(ready(), 'ready');

    my (@began, @ended, $refused);
    my $began = time;

    while (time < $began + 2.5 || (!$refused && time < $began + 20)) {
        my $at = time;
        my ($status, $head) = ask('short', 'k', 25);

        if ($status == 200) {
            push @began, $at;
            push @ended, time;
            next;
        }

        is($status, 429, 'refused') if $status != 429;
        $refused++;
        my ($wait) = $head =~ /Retry-After: (\d+)/;
        is($wait, 1, 'for a second') if $refused == 1;
        sleep 0.02;
    }

    my $took = time - $began;

    # two of 50 fit into each window

    cmp_ok(scalar(@began), '<=', 2 * (int($took) + 2),
           'no more than the quota in a window');
    cmp_ok(scalar(@began), '>=', 2, 'and all of it');
    ok($refused, 'others are refused');

    # with one more there is a whole window between the first and the last

    is(scalar(grep { $ended[$_ + 4] - $began[$_] < 1 } 0 .. $#began - 4), 0,
       'nor more than two quotas around a border');

    stop_nginx();
}


# nginx itself does not serve after a reload without a master, but lives: the
# zones' timers must not be those of a configuration that is gone

sub without_a_master {
    unlink $File;
    quota_conf(main => 'master_process off;');
    run_nginx();
    ok(ready(), 'without a master');
    is(spend('alice', 5), 990, 'alice spends 10');

    mark();
    kill 'HUP', master();
    ok(wait_for(sub { log_since() =~ /reconfiguring|exiting/
                      && saved('alice') }),
       'a reload saves the state');

    SKIP: {
        skip 'OpenResty ends at HUP without a master', 1
            if log_since() =~ /SIGHUP\) received from \d+, exiting/;

        sleep 1;                               # more than a timer's time
        ok(alive(master()), 'and the process lives');
        stop_nginx();
    }
}


# a prompt of n and as many tokens: what is left then

sub ask {
    my ($path, $key, $n) = @_;

    return fetch("POST /$path/completions?key=$key",
                 '{"prompt":"' . 'x' x $n . qq(","max_tokens":$n}));
}

sub spend {
    my (undef, $head) = ask('q', @_);

    return $head =~ /x-ratelimit-remaining-tokens: (\d+)/ ? $1 : $head;
}

# of a request that is too large, so that it costs nothing

sub left {
    my (undef, $head) = fetch("POST /q/completions?key=$_[0]",
                              '{"prompt":"a","max_tokens":2000}');

    return $head =~ /x-ratelimit-remaining-tokens: (\d+)/ ? $1 : $head;
}

sub saved_all {
    return { map { (split)[2, 1] } grep { !/^(?:mistral|end)/ }
             split /\n/, slurp($File) };
}

# a state file with something in it

sub spend_and_stop {
    run_nginx();
    ready();
    spend('alice', 20);
    stop_nginx();
}

sub saved {
    my ($used) = slurp($File) =~ /^\d+ (\d+) \Q$_[0]\E$/m;

    return $used;
}
