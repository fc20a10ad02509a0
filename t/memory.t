#!/usr/bin/perl

# Large bodies: what a worker took for one goes back to the system, in the end
# and in turns of its own, however the request ended.

use warnings;
use strict;

use lib 't/lib';

use MistralLife;
use Test::More;

my $S = server();
my $MiB = 1024;                                        # KiB
my $Size = 6;                                          # MiB
time_out(60);

conf(workers => 1, server => 'client_max_body_size 64m;',
     http => <<'HTTP', locations => <<'PLACES');
    log_format  ends  '$arg_name $status $mistral_turns';

    mistral_model bytes { path null:; context 1048576; }
HTTP
    access_log  logs/ends ends;

    location /bytes/ { mistral_pass bytes; }
PLACES

run_nginx();
ok(ready(), 'ready');

my $Text = 'a' x ($Size << 20);
my $Pid = (workers())[0];

is((tokenize('first', 'few'))[0], 200, 'a small one first');

my $Before = kib('VmRSS');

is(count((tokenize('whole', $Text))[2]), length $Text,
   'all tokens of a large one');
cmp_ok(kib('VmHWM') - $Before, '>', 5 * $Size * $MiB,
       'which takes much memory');
back('an answer');

is((completion('damaged', $Text . '"'))[0], 400, 'a body that ends wrong');
back('an error');

is((completion('long', $Text x 3))[0], 400, 'more than the context');
back('a prompt that is too long');

for my $part (1, 3) {
    my $name = "left$part";
    my $body = qq({"prompt":"$Text"});
    my $sock = request("POST /bytes/tokenize?name=$name", $body);

    select undef, undef, undef, 0.02 * $part;
    close $sock;
    ok(wait_for(sub { ends($name) }), 'a client left');
    back('a client that left');
}

like(ends('whole'), qr/^whole 200 [1-9]\d/, 'in turns');
is($Pid, (workers())[0], 'all of one worker');
no_alerts('all of it');

# nor does it keep a worker that leaves

my $sock = request('POST /bytes/tokenize?name=last', qq({"prompt":"$Text"}));

reload();
is(count(read_all($sock, 60)), length $Text, 'a last one');
ok(wait_for(sub { gone($Pid) }), 'and its worker ends');

stop_nginx();
nothing_left('the end');
done_testing();


sub tokenize {
    my ($name, $text) = @_;

    return fetch("POST /bytes/tokenize?name=$name", qq({"prompt":"$text"}));
}

sub completion {
    my ($name, $text) = @_;

    return fetch("POST /bytes/completions?name=$name",
                 qq({"max_tokens":1,"prompt":"$text"}));
}

# memory of a sanitizer's build is not given back, so that it finds who uses it

sub back {
    my ($what) = @_;

    SKIP: {
        skip 'a sanitizer keeps memory', 1 if sanitized();

        ok(wait_for(sub { kib('VmRSS') < $Before + 2 * $MiB }),
           "$what: all is back")
            or diag("$Before KiB before, now " . kib('VmRSS'));
    }
}

sub kib {
    my ($name) = @_;

    return field($Pid, $name) =~ /^(\d+) kB$/ ? $1 : die "no $name";
}

sub count { return $_[0] =~ /"count":(\d+),/ ? $1 : substr $_[0], 0, 200 }

sub ends {
    my ($name) = @_;

    return (grep { /^$name / } split /\n/, slurp("$S->{prefix}/logs/ends"))[0];
}
