#!/usr/bin/perl

# A model's device where it cannot be had: "auto" is the CPU with one line in
# the log, "cuda:N" is 503 with the reason, while all else goes on.  The
# library is a file that the loader refuses, or make cuda's where there is no
# driver.

use warnings;
use strict;

use lib 't/lib';
use File::Copy qw/ copy /;
use MistralLife;
use Test::More;

time_out(300);

my $gguf = "$Build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
my $made = "$Build/libmst_cuda.so";

plan skip_all => "no $gguf: make model" if !-e $gguf;

my $S = server();
my $library = "$S->{closed}/libmst_cuda.so";
my $model = "path $gguf; context 512;";

# no library: nothing is said

conf(model => "$model device auto;");
run_nginx();
ok(ready(60), 'auto without a library');
my $text = answer(8);
is(backend(), 'cpu', 'is the CPU');
unlike(log_text(), qr/device auto/, 'without a line in the log');
is(status('max_batch'), 16, "with the CPU's max_batch");
my $engine = engine();

# one that is none: what computes is the same, and the log says why

write_file($library, 'no shared object ' x 99);
ok(reload(), 'a reload finds a library');
ok(wait_for(sub { (engine() // $engine) != $engine && ready(60) }),
   'which changes the engine');
is(backend(), 'cpu', 'auto with what is no library is the CPU');
is(answer(8), $text, 'with the same answer');
is(status('max_batch'), 16, "and the CPU's max_batch");
is(scalar(() = log_text() =~ /device auto: .*; the CPU computes "m"/g), 1,
   'one line says so');
like(log_text(), qr/device auto: libmst_cuda.so cannot be opened: .*invalid ELF/, 'and why');
$engine = engine();
ok(reload(), 'a reload without changes');
is(engine(), $engine, 'keeps the engine');

# a device that is asked for by its name: no other one computes

mark();
conf(model => "$model device cuda:0;",
     http => 'mistral_model n { path null:; }',
     locations => 'location /n/ { mistral_pass n; }');
ok(reload(), 'device cuda:0');
ok(wait_for(sub { log_since() =~ /invalid ELF header/ }), 'is tried');
my ($status, undef, $body) = post(4);
is($status, 503, 'its requests get 503');
like($body, qr/"code":"(?:loading|engine_unavailable)"/, 'in the API\'s form');
is((get('/healthz'))[0], 503, 'health, too');
is((fetch('POST /n/completions', '{"prompt":"x","max_tokens":3}'))[0], 200,
   'another model answers');
ok(wait_for(sub { log_since() =~ /exited with code 78.* (?:ms|s)\b/ }),
   'the next attempts come with pauses');
unlike(log_since(), qr/device auto/, 'nothing is computed elsewhere');
no_alerts('a device that is not there', qr/engine process \d+ exited with/);
stop_nginx();

# what make cuda built, without a driver

SKIP: {
    skip "no $made: make cuda", 3 if !-e $made;
    skip 'there is a driver', 3 if -e '/dev/nvidiactl';

    unlink $library;
    copy($made, $library) or die $!;
    conf(model => "$model device auto;");
    run_nginx();
    ok(ready(60), 'auto without a driver');
    like(log_since(), qr/\[notice\].* device auto: \S.*; the CPU computes "m"/,
         'is the CPU, and one line says why');
    is(answer(8), $text, 'with the same answer');
    stop_nginx();
}

nothing_left();
done_testing();


sub backend {
    my ($what) = (get('/status'))[2] =~ /"backend":"(\w+)/;

    return $what // 'none';
}
