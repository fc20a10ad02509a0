#!/usr/bin/perl

# Two nginx of one configuration: the second one is refused while the first
# has the address, and starts nothing; where both may have it (reuseport),
# each has its own engine, and neither touches the other's.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;

my $S = server();
time_out(120);

conf();
run_nginx();
ok(ready(), 'ready');

my ($engine, $supervisor) = (engine(), supervisor());

# nginx tries for 2.5 s

$S->{quiet} = 1;
isnt(nginx(), 0, 'a second nginx is refused');
like($S->{out}, qr/bind\(\) to \S+ failed \(98/, 'by its address');
is_deeply([ programs() ], [ sort { $a <=> $b } $engine, $supervisor ],
          'it started nothing');
is(engine(), $engine, 'the first is the same');
is(answer(4), text(4), 'and answers');
stop_nginx();

# both have the port; the kernel gives each a part of the connections

conf();
my $conf = slurp("$S->{prefix}/nginx.conf");
$conf =~ s/^pid .*$//m;
$conf =~ s/listen 127\.0\.0\.1:\d+;/listen 127.0.0.1:$S->{port} reuseport;/;
write_file("$S->{prefix}/nginx.conf", $conf);

$S->{quiet} = 0;

for my $name (qw/ a b /) {
    is(nginx('-g', "'pid $S->{prefix}/$name.pid;'"), 0, "nginx $name starts");
}

ok(wait_for(sub { -s "$S->{prefix}/a.pid" && -s "$S->{prefix}/b.pid" }),
   'both run');

my %master = map { $_ => (slurp("$S->{prefix}/$_.pid") =~ /(\d+)/)[0] }
             qw/ a b /;

ok(wait_for(sub { keys %{ engines() } == 2 }), 'with an engine each');
is(scalar(programs()), 4, 'and a supervisor each');
ok(!(grep { answer(4) ne text(4) } 1 .. 20), 'whoever is asked answers');

my %first = %{ engines() };

# one dies: the other does not notice

my ($victim) = keys %first;
my ($other) = grep { $_ != $victim } keys %first;

signal 'KILL', $victim;
ok(wait_for(sub { my $e = engines(); keys %$e == 2 && !$e->{$victim} }),
   'an engine is killed and comes back');
ok(engines()->{$other}, 'the other is the same');

my $s = stream(60);
signal 'HUP', $_ for values %master;
is(finish($s), text(60), 'both reload under a stream');
ok(wait_for(sub { my $e = engines(); keys %$e == 2 && $e->{$other} }),
   'with the same engines');

# one ends

my @workers = workers($master{a});
signal 'QUIT', $master{a};
ok(gone($master{a}, @workers), 'one quits');
ok(wait_for(sub { programs() == 2 }), 'its engine leaves, the other stays');
ok(!(grep { answer(4) ne text(4) } 1 .. 8), 'and answers');

my @all = (programs(), $master{b}, workers($master{b}));
signal 'TERM', $master{b};
ok(gone(@all), 'nothing is left after the other one');

nothing_left();
done_testing();


# whoever answers tells of its engine

sub engines {
    my %e;

    for (1 .. 30) {
        my $pid = engine();
        $e{$pid} = 1 if $pid > 0;
    }

    return \%e;
}

END {
    my $status = $?;

    signal 'TERM', map { slurp("$S->{prefix}/$_.pid") =~ /(\d+)/ } qw/ a b /;
    $? = $status;
}
