#!/usr/bin/perl

# What an engine measured of its device's products is used by the next one:
# after a crash, after a reload that changes the engine, by another nginx.  The
# device is none (t/unit/fake_cuda.c); it computes nothing, but starts, answers
# and is measured.

use warnings;
use strict;

use lib 't/lib';
use File::Copy qw/ copy /;
use MistralLife;
use MistralTiny;
use Test::More;

my $fake = "$Build/t/libmst_fake.so";

plan skip_all => "no $fake: make units, which needs the headers of a CUDA"
                 . ' toolkit' if !-e $fake;

my $S = server();
my $model = 'path closed/m; device cuda:0; weight_layouts 1;'
            . ' tuning_cache tuned;';

my $info = "error_log logs/error.log info;";

time_out(120);
checkpoint("$S->{closed}/m", 'mistral-plain');
copy($fake, "$S->{closed}/libmst_cuda.so") or die $!;
conf(main => $info, model => $model);

# the first one measures

run_nginx();
ok(ready(), 'a first engine');
my ($n, $again) = chosen();
cmp_ok($n, '>', 4, 'measures');
is($again, 0, 'all');
is(scalar(() = glob "$S->{prefix}/tuned/mistral-gemm-*"), 1, 'into one file');
my $engine = engine();

# after a crash

mark();
signal 'KILL', $engine;
ok(wait_for(sub { my $e = engine(); $e > 1 && $e != $engine && ready(0.1) }),
   'another engine after kill -9');
is_deeply([ chosen() ], [ $n, $n ], 'measures nothing');

# after a reload

$engine = engine();
mark();
ok(reload(), 'a reload');
is(engine(), $engine, 'keeps the engine');
conf(main => $info, model => "$model context 96;");
ok(reload(), 'a reload with another engine');
ok(wait_for(sub { (engine() // $engine) != $engine && ready(0.1) }),
   'is another one');
is_deeply([ chosen() ], [ $n, $n ], 'which measures nothing');
stop_nginx();

# by another nginx; what is damaged is measured

mark();
run_nginx();
ok(ready(), 'another nginx');
is_deeply([ chosen() ], [ $n, $n ], 'measures nothing');
stop_nginx();

my ($file) = glob "$S->{prefix}/tuned/mistral-gemm-*";
truncate $file, 40;
mark();
run_nginx();
ok(ready(), 'a damaged file');
is_deeply([ chosen() ], [ $n, 0 ], 'is not used');
like(log_since(), qr/measured before is not read from ".*": it is none of this/,
     'and why');
stop_nginx();

nothing_left();
done_testing();


# of the last start: how many products, and how many as before

sub chosen {
    return (log_since() =~ /(\d+) GEMMs chosen in \d+ ms, (\d+) as before/g)
           [-2, -1];
}
