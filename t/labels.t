#!/usr/bin/perl

# mistral_metrics_labels over workers, deaths and reloads: no request is lost
# or counted twice, no series goes back, the page stays one for Prometheus.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep /;

time_out(120);

my $S = server();

sub configure {
    my ($labels, $max) = @_;

    conf(workers => 3, model => 'path null:; context 4096;',
         http => "$labels mistral_metrics_max_series $max;",
         locations => 'location /who/ { mistral_consumer $arg_who;
                                        mistral_tag team $arg_team;
                                        mistral_pass m; }
                       location = /metrics { mistral_status prometheus; }');
}

configure('mistral_metrics_labels model consumer tag:team;', 20);
is(nginx(), 0, 'nginx starts');
ok(ready(), 'ready');

# 40 consumers for 20 rows, from all workers at once

my @open;

for my $n (1 .. 600) {
    push @open, request('POST /who/completions?who=c' . $n % 40,
                        '{"prompt":"x","max_tokens":2}');
    read_all(shift @open, 20) if @open > 30;
}

read_all($_, 20) for @open;

my %r;

ok(wait_for(sub { %r = series('requests_total'); sum(%r) == 600 }),
   'every request is counted once') or diag explain \%r;
is(scalar(grep { !/_overflow/ } keys %r), 20, 'in 20 rows');
is(scalar(grep { /_overflow/ } keys %r), 1, 'and one for the rest');
is(scalar(grep { !/_overflow/ && $r{$_} != 15 } keys %r), 0,
   'each has what it asked for');

my %t = series('completion_tokens_total');
is(sum(%t), 1200, 'tokens');

# a reload with the same labels, dead workers

ok(reload(), 'reload');
is_deeply({ series('requests_total') }, \%r, 'as before');

my @old = workers();
kill 'KILL', @old;
ok(wait_for(sub { my %o = map { $_ => 1 } @old;
                  (grep { !$o{$_} } workers()) == 3 }), 'new workers');
ok(ready(), 'ready');
is_deeply({ series('requests_total') }, \%r, 'as before');

is((fetch('POST /who/completions?who=c1', '{"prompt":"x","max_tokens":2}'))[0],
   200, 'one more');
ok(wait_for(sub { sum(series('requests_total')) == 601 }), 'is counted');

# what a client may send, on a page that promtool reads

fetch('POST /who/completions?who=' . $_, '{"prompt":"x","max_tokens":1}')
    for 'a"b', 'a\\', "\xff\xfe", "\xed\xa0\x80", 'x' x 2000, "e\xcc\x81", '{}';

my ($code, undef, $page) = get('/metrics');
is($code, 200, 'the page');
unlike($page, qr/[\x00-\x09\x0b-\x1f\x7f]/, 'has no control characters');

SKIP: {
    my ($tool) = grep { -x } map { "$_/promtool" } split /:/, $ENV{PATH};

    skip 'no promtool', 1 if !$tool;

    open my $fh, '|-', "$tool check metrics >$S->{prefix}/promtool 2>&1"
        or die $!;
    print $fh $page;
    ok(close $fh, 'promtool check metrics')
        or diag slurp("$S->{prefix}/promtool");
}

# other labels are other series, and begin anew

configure('mistral_metrics_labels model tag:team;', 20);
ok(reload(), 'a reload with other labels');
fetch('POST /who/completions?who=c1&team=red', '{"prompt":"x","max_tokens":2}');
ok(wait_for(sub { my %n = series('requests_total');
                  ($n{'model="m",tag_team="red",code="200"'} // 0) == 1 }),
   'counted by team');
is(scalar(my @n = series('requests_total')), 2, 'and nothing else');

configure('', 20);
ok(reload(), 'no labels');
is(scalar(my @none = series('requests_total')), 0, 'no series');

no_alerts('labels', qr/exited on signal 9/);
stop_nginx();
nothing_left();
done_testing();


sub series {
    my ($name) = @_;

    return (get('/metrics'))[2] =~ /^mistral_usage_$name\{(.*)\} (\d+)$/mg;
}

sub sum {
    my %v = @_;
    my $sum = 0;

    $sum += $_ for values %v;
    return $sum;
}
