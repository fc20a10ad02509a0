#!/usr/bin/perl

# A worker that leaves: streams end by themselves, or, where
# worker_shutdown_timeout cuts them, with an error that a client sees.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $S = server();
time_out(120);

conf(main => 'worker_shutdown_timeout 1s;',
     http => "log_format cut '\$status \$mistral_finish_reason "
             . "queue=\$mistral_queue_time decode=\$mistral_decode_time;';",
     server => 'access_log logs/cut.log cut;');
run_nginx();
ok(ready(), 'ready');

my $engine = engine();
my $short = stream(20);
my $long = stream(1500);
my $whole = request('POST /v1/chat/completions', chat(1500));
ok(wait_for(sub { status('running') == 3 }), 'three answers run');

ok(reload(), 'reload');
is(finish($short), text(20), 'a short stream completes');
like($short->{buf}, qr/data: \[DONE\]/, 'with its end');

my $got = finish($long);
is($got, text(length $got), 'a long one is cut after what came in time');
unlike($long->{buf}, qr/\[DONE\]/, 'and does not look complete');
like($long->{buf}, qr/data: \{"error":\{[^\n]*"code":"shutting_down"/,
     'it ends with an error event');

my $reply = read_all($whole, 20);
like($reply, qr{^HTTP/1\.1 503 }, 'an answer without a byte yet is 503');
like($reply, qr/^Retry-After: /m, 'with Retry-After');
like($reply, qr/^X-Mistral-Shed-Reason: draining\r?$/m, 'and the reason');
like($reply, qr/"code":"shutting_down"/, 'in the body, too');

my @told = log_since() =~ /(request "\S+" is cut [^\n]*)/g;
is(scalar(@told), 2, 'the log tells of both');
like($told[0], qr/see "worker_shutdown_timeout"/, 'and what to change');

my $cut = qr/^(?:200|503) .* queue=\d+\.\d{3} decode=-;$/m;

ok(wait_for(sub { 2 == (() = slurp("$S->{prefix}/logs/cut.log") =~ /$cut/g) }),
   'both waited for so long before they ran')
    or diag(slurp("$S->{prefix}/logs/cut.log"));
ok(wait_for(sub { status('running') == 0 && status('queue_places') == 0 }),
   'the engine computes for nobody');
is(engine(), $engine, 'it is the same');
is(answer(4), text(4), 'and answers');
no_alerts('cut streams');

# quit, too

$long = stream(1500);
my @all = (programs(), master(), children());
is(nginx('-s', 'quit'), 0, 'quit');
finish($long);
like($long->{buf}, qr/"code":"shutting_down"/, 'ends it visibly');
ok(gone(@all), 'nothing is left');

# without the directive nothing is cut

conf();
run_nginx();
ok(ready(), 'ready');
$long = stream(120);
ok(reload(), 'reload');
is(finish($long), text(120), 'a stream completes');
like($long->{buf}, qr/data: \[DONE\]/, 'with its end');

stop_nginx();
nothing_left();
done_testing();
