#!/usr/bin/perl

# What nvcc makes of the kernels, for each target: all compile, none spills
# registers but those that are listed, ptxas serialises no wgmma, and the
# library shows no more than it must and opens with a sentence where there is
# no device.  Without a CUDA toolkit there is nothing to look at: the product
# then computes on the CPU.

use warnings;
use strict;

use File::Temp qw/ tempdir /;
use Test::More;

my $build = $ENV{BUILD} || 'build';
my @targets = qw/ sm_80 sm_86 sm_89 sm_90a /;

# kernels that may spill so many bytes, stores and loads together, and why

my @spills = (

    # 9 to 16 heads of 128 for a KV head: two CTAs on a multiprocessor, which
    # win 10 % from batch 32 on, leave too few registers for both halves of
    # the heads; up to 8 heads nothing spills
    [ qr/^_Z9mst_k_decILi128ELi[01]ELi1E/, qr/^sm_(?:86|90a)$/, 300 ],
);

delete @ENV{qw/ MAKEFLAGS MAKELEVEL MFLAGS /};

my ($rc, $said) = run("make -s cuda-toolkit BUILD=$build");

plan skip_all => $1 if $rc && $said =~ /^(make cuda needs .*)/m;

# "make test" has built it: this tells what went wrong there.  It does not lie
# beside the program, whose tests are of what a host without a device does.

my $library = "$build/t/libmst_cuda.so";

($rc, $said) = run("make cuda BUILD=$build CUDA_LIB=$library");
is($rc, 0, 'make cuda') or do {
    diag($said);
    done_testing();
    exit;
};

for my $source (glob 'kernels/*.cu') {
    my ($name) = $source =~ m{([^/]+)\.cu$};
    my %kernels = kernels("$build/kernels/$name.ptxas");

    for my $target (@targets) {
        my @bad = map { "$_: $kernels{$target}{$_} bytes" }
                  grep { $kernels{$target}{$_} > may($_, $target) }
                  sort keys %{ $kernels{$target} };

        ok(!@bad, "$name, $target: no spills") or diag(join "\n", @bad);
    }

    ok(!@{ $kernels{said} }, "$name: nothing is serialised")
        or diag(join "\n", @{ $kernels{said} });
}

my %known = map { %{ { kernels($_) } } } glob "$build/kernels/*.ptxas";

is(join(' ', sort grep { /^sm/ } keys %known), join(' ', @targets),
   'the targets');

($rc, $said) = run("nm -D --defined-only $library");
is(join(' ', sort $said =~ /^\S+ [A-Z] (\S+)/mg),
   'mst_cuda_open mst_cuda_probe', 'two symbols are shown');

SKIP: {
    skip 'there is a device', 2 if -e '/dev/nvidiactl';
    skip "no $build/mistral", 2 if !-x "$build/mistral";

    my $dir = tempdir(CLEANUP => 1);

    run("cp $build/mistral $library $dir");
    ($rc, $said) = run("echo '[1,2,3]' | $dir/mistral generate --prompt-ids -"
                       . ' --max-tokens 1 --device cuda:0 --model'
                       . ' t/data/golden/tiny/mistral-plain');

    isnt($rc, 0, 'no device');
    like($said, qr/^mistral generate: .*no CUDA device can be used: \w/,
         'is one sentence');
}

done_testing();


sub may {
    my ($kernel, $target) = @_;
    my ($may) = grep { $kernel =~ $_->[0] && $target =~ $_->[1] } @spills;

    return $may ? $may->[2] : 0;
}


# target => { kernel => bytes of spills }, said => [ lines ]

sub kernels {
    my ($path) = @_;
    my %found = (said => []);
    my ($kernel, $target) = ('', '');

    open my $in, '<', $path or die "$path: $!";

    while (my $line = <$in>) {
        ($kernel, $target) = ($1, $2)
            if $line =~ /entry function '(\w+)' for '(\w+)'/;

        $found{$target}{$kernel} = 0 if $line =~ /entry function/;

        # of the functions that it calls, too

        $found{$target}{$kernel} += $1 + $2
            if $line =~ /(\d+) bytes spill stores, (\d+) bytes spill loads/;

        push @{ $found{said} }, $line =~ s/\s+$//r
            if $line =~ /\bC75(?:08|10|19)\b|warning/i;
    }

    return %found;
}


sub run {
    my ($command) = @_;
    my $said = `$command 2>&1`;

    return ($?, $said);
}
