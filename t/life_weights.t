#!/usr/bin/perl

# Weights that engines of the same files share, in memory that the master
# keeps: after a crash, beside another block, over a reload with "overlap";
# not those of a file that was replaced.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use MistralTiny;
use Test::More;

my $S = server();
my $dir = "$S->{closed}/m";

time_out(120);

# which memory for weights a process has mapped: inodes, and for what

sub weights {
    my ($pid) = @_;
    my %of;

    for (split /\n/, slurp("/proc/$pid/maps")) {
        my ($mode, $inode) = m{^\S+ (\S+) \S+ \S+ (\d+) +/memfd:mistral-weights}
            or next;
        $of{$inode} .= $mode;
    }

    return \%of;
}

sub said {
    my ($answer) = (fetch('POST /v1/chat/completions', chat(12)))[2]
                   =~ /"content":("(?:[^"\\]|\\.)*")/;
    return $answer;
}

sub another {
    my ($old) = @_;
    my $e;

    return wait_for(sub { $e = engine(); $e > 1 && $e != $old && ready(0.1) })
           ? $e : 0;
}

checkpoint($dir, 'mistral-plain');
conf(model => 'path closed/m;');
run_nginx();
ok(ready(), 'ready');

if (log_text() !~ /MiB of weights stand in memory for others, too/) {
    like(log_text(), qr/: the weights stand in memory of this engine's own/,
         'nothing is shared where memory has no huge pages');
    stop_nginx();
    done_testing();
    exit;
}

my $text = said();
my $engine = engine();
my $weights = weights($engine);
my ($inode) = keys %$weights;

ok(length $text, 'it answers');

SKIP: {
    skip 'maps are for root to see', 1 if $> != 0;
    is_deeply($weights, { $inode => 'r--s' }, 'one memory, for reading');
}

# a crash

mark();
signal 'KILL', $engine;
my $next = another($engine);
ok($next, 'another engine after kill -9');
like(log_since(), qr/MiB of weights stood in memory already/,
     'finds its weights');
unlike(log_since(), qr/for others, too/, 'and writes none');
is(said(), $text, 'and says the same');
is_deeply(weights($next), $weights, 'from the same memory');

# of engine and supervisor: a worker brings both back

mark();
signal 'STOP', $next;
signal 'KILL', supervisor();
signal 'KILL', $next;
$engine = another($next);
ok($engine, 'another engine and supervisor');
like(log_since(), qr/MiB of weights stood in memory already/,
     'find the weights');
is(said(), $text, 'and say the same');
is_deeply(weights($engine), $weights, 'from the same memory');

# a changed block and one of the same path, while the old engine streams

my $old = stream(100);
mark();
conf(model => 'path closed/m; context 120;',
     http => 'mistral_model n { path closed/m; context 112; }');
ok(reload(), 'a reload with another block of that path');
$next = another($engine);
ok($next, 'has another engine');
ok(wait_for(sub { (() = log_since() =~ /MiB of weights st(?:oo|an)d/g) == 2 }),
   'and one for the other block');
is(scalar(() = log_since() =~ /MiB of weights stood in memory already/g), 2,
   'both find the weights');
is(said(), $text, 'the same answer');
finish($old);

SKIP: {
    skip 'programs are for root to see', 2 if $> != 0;
    my @of = grep { length } map { join ' ', keys %{ weights($_) } } programs();

    # the old engine may be gone by now

    cmp_ok(scalar @of, '>=', 2, 'two engines at least');
    is_deeply([ grep { $_ ne $inode } @of ], [], 'with one memory');
}

# another model in its place

mark();
checkpoint("$S->{closed}/new", 'mistral-plain', config => sub {
    $_[0]{rms_norm_eps} *= 2 });
rename $dir, "$S->{closed}/old" or die $!;
rename "$S->{closed}/new", $dir or die $!;
$engine = engine();
conf(model => 'path closed/m;');
ok(reload(), 'a reload with replaced files');
$next = another($engine);
ok($next, 'has another engine');
like(log_since(), qr/MiB of weights stand in memory for others, too/,
     'which reads them');
unlike(log_since(), qr/stood in memory already/, 'and finds none');
ok(!weights($next)->{$inode}, 'in another memory') if $> == 0;

no_alerts('but those of deaths', qr/signal|died|supervisor|engine/);
stop_nginx();
nothing_left();
done_testing();
