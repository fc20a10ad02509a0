#!/usr/bin/perl

# Limits of the machine: open files, locked memory, addresses, and control
# groups of memory and cores.

use warnings;
use strict;

use lib 't/lib';
use MistralLife;
use Test::More;
use Time::HiRes qw/ sleep time /;

my $model = "$Build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
my $S = server();
my ($engine, $supervisor, @groups);

time_out(150);

# open files: too few are told of in one sentence, by nginx -t, too; a soft
# limit is no limit

conf();
$S->{quiet} = 1;

my $out = limited('ulimit -n 300', '-t');
isnt($?, 0, '300 open files: nginx -t fails');
my @told = $out =~ /\[emerg\] ([^\n]*)/g;
is(scalar(@told), 1, 'with one sentence');
like($told[0], qr/^1 engines need a limit of \d+ open files, it is 300: raise/,
     'that says how many and where');

limited('ulimit -S -n 100');
is($?, 0, 'a soft limit of 100');
ok(ready(), 'is raised: ready');
is(answer(4), text(4), 'it answers');
$engine = engine();

# an engine that goes on needs no room; one more is refused if there is none

conf(connections => 1024,
     http => join '', map { "mistral_model x$_ { path null:; }\n" } 1 .. 200);
mark();
signal 'HUP', master();
ok(wait_for(sub { log_since() =~ /200 engines need a limit of \d+ open/ }),
   'more engines than the limit has room for: the reload is refused');
conf();
ok(reload(), 'a reload without them');
is(engine(), $engine, 'keeps the engine');
stop_nginx();

conf(main => 'worker_rlimit_nofile 60;');
is(nginx('-t'), 0, 'fewer files for workers than they begin with');
like($S->{out}, qr/\[warn\] [^\n]*"worker_rlimit_nofile 60" may be too few/,
     'is a warning');

# a worker that may have few files cannot start a supervisor: it says so, and
# a reload does

conf(main => 'worker_rlimit_nofile 220;');
run_nginx();
ok(ready(), 'workers with 220 files: ready');
mark();
($engine, $supervisor) = (engine(), supervisor());
signal 'STOP', $supervisor;
signal 'KILL', $engine, $supervisor;
ok(wait_for(sub { log_since() =~ /\(24: Too many open files\)/ }),
   'no room for the descriptors of a supervisor: the log tells');
is((post(4))[0], 503, 'requests get 503');
ok(reload(), 'a reload');
ok(ready(), 'brings it back');
stop_nginx();

# connections: a worker needs some for itself

my @models = map { "mistral_model x$_ { path null:; }\n" } 1 .. 9;

for my $listen ('', "listen 127.0.0.1:@{[ free_port() ]} reuseport;") {
    my $least = 10 * 3 + 3 + ($listen ? 2 : 1);

    conf(http => "@models", server => $listen, connections => $least - 1);
    isnt(nginx('-t'), 0, 'too few connections for 10 models: nginx -t fails');
    @told = $S->{out} =~ /\[emerg\] (?:\d+\#\d+: )?([^\n]*)/g;
    is_deeply(\@told, [$least - 1 . ' worker_connections are not enough for '
                       . "10 models, at least $least are needed"],
              'with one sentence, that says how many');

    conf(http => "@models", server => $listen, connections => $least);
    run_nginx();
    ok(ready(), "with $least it serves");
    is(answer(4), text(4), 'and answers');
    stop_nginx();
}

# locked memory

conf();
limited('ulimit -l 0');
ok(ready(), 'no locked memory: ready');
is(answer(4), text(4), 'it answers');
stop_nginx();

# addresses: the engine cannot have what it needs, says so, and nginx serves
# on

SKIP: {
    skip "no $model: make model", 6 if !-e $model;

    conf(model => "path $model; context 512; device cpu threads=1;");
    run_nginx();
    ok(ready(60), 'a real model');
    ($engine, $supervisor) = (engine(), supervisor());

    skip 'prlimit is not there, or may not', 5
        if limit($supervisor, '250000000:unlimited') != 0;

    mark();
    signal 'KILL', $engine;
    ok(wait_for(sub { log_since() =~ /\[error\] [^\n]*(?:cannot map \d+ bytes
                      |[Oo]ut[ ]of[ ]memory|no[ ]memory
                      |Cannot[ ]allocate)/x }, 60),
       'not enough addresses: the log tells what for')
        or diag log_since();
    is((get('/plain'))[0], 200, 'nginx serves');
    is((post(4))[0], 503, 'the model does not');
    limit($supervisor, 'unlimited');
    ok(ready(60), 'it comes back by itself when it can');
    unlike(answer(4), qr/^\d/, 'and answers');
    stop_nginx();
}

# control groups

SKIP: {
    skip "no $model: make model", 4 if !-e $model;

    my $cpu = group('cpu') or skip 'no control group of CPUs can be made', 4;

    conf(model => "path $model; context 512;");

    skip 'its quota cannot be set', 4
        if !(set("$cpu/cpu.cfs_period_us", 100000)
             && set("$cpu/cpu.cfs_quota_us", 100000))
           && !set("$cpu/cpu.max", '100000 100000');

    limited("echo \$\$ > $cpu/cgroup.procs");
    ok(ready(120), 'a quota of one core: ready');
    like((get('/status'))[2], qr/"backend":"cpu, 1 threads"/, 'one thread');
    unlike(answer(4), qr/^\d/, 'it answers');
    stop_nginx();
}

SKIP: {
    skip "no $model: make model", 10 if !-e $model;

    my $mem = group('memory')
        or skip 'no control group of memory can be made', 10;

    my ($max) = grep { -e } map { "$mem/$_" } qw/ memory.limit_in_bytes
                                                  memory.max /;

    conf(model => "path $model; context 512; device cpu threads=1;"
                  . ' kv_cache auto size=50%;');

    skip 'its limit cannot be set', 10 if !set($max, 1 << 30);

    limited("echo \$\$ > $mem/cgroup.procs");
    ok(ready(60), 'a group of 1 GiB: ready');

    my ($blocks) = (get('/status'))[2] =~ /"kv_blocks_total":(\d+)/;

    # 30 layers, 3 heads of 64, keys and values of 4 bytes

    my $size = ($blocks // 0) * 16 * 30 * 3 * 64 * 2 * 4;
    cmp_ok($size, '>', 100 << 20, 'half of free memory for the cache ...');
    cmp_ok($size, '<=', 512 << 20, '... is half of the group\'s');

    # less than the model: the kernel kills the engine, again and again

    $engine = engine();
    $supervisor = supervisor();
    mark();
    signal 'STOP', $supervisor;                # or a new one is there first
    signal 'KILL', $engine;
    ok(wait_for(sub { set($max, 48 << 20) }), 'the group shrinks to 48 MiB');
    signal 'CONT', $supervisor;
    ok(wait_for(sub { log_since() =~ /on signal 9.*on signal 9.*on signal 9/s },
                60), 'too little for the model: the engine is killed')
        or diag log_since();
    ok(alive($supervisor), 'the supervisor is not');
    is((get('/plain'))[0], 200, 'nginx serves');
    is((post(4))[0], 503, 'the model does not');
    is(scalar(() = log_since() =~ /worker process \d+ exited/g), 0,
       'no worker was killed');
    ok(set($max, 1 << 30), 'the group grows');
    ok(ready(60), 'it comes back by itself');
    unlike(answer(4), qr/^\d/, 'and answers');
    stop_nginx();
}

nothing_left();
done_testing();


# nginx by a shell that does something first

sub limited {
    my ($first, @args) = @_;

    return qx{sh -c '$first || exit 3
                     exec $Nginx -p $S->{prefix}/ -c nginx.conf -e \\
                         logs/error.log @args' 2>&1};
}

# of addresses, as the supervisor's own user: root may lack that right

sub limit {
    my ($pid, $as) = @_;
    my $by = $> == 0 ? 'setpriv --reuid ' . user() . ' --regid '
                       . (getpwnam user())[3] . ' --clear-groups' : '';

    return system("$by prlimit --pid $pid --as=$as 2>/dev/null");
}

# v1: a folder of each controller; v2: one tree

sub group {
    my ($controller) = @_;

    for my $root ("/sys/fs/cgroup/$controller", '/sys/fs/cgroup') {
        my $dir = "$root/mistral_test_$$";

        next if !-d $root || !mkdir $dir;
        push @groups, $dir;

        set('/sys/fs/cgroup/cgroup.subtree_control', "+$controller")
            if -e "$dir/cgroup.controllers";

        return $dir if -w "$dir/cgroup.procs"
                       && grep { -e "$dir/$_" } qw/ memory.max cpu.max
                                  memory.limit_in_bytes cpu.cfs_quota_us /;
    }

    return;
}

sub set {
    my ($file, $value) = @_;

    open my $fh, '>', $file or return 0;
    print $fh $value;
    return close $fh;
}

END {
    my $status = $?;

    for (@groups) {
        stop_all($_);
        rmdir $_;
    }

    $? = $status;
}

# what a failed check left in a group keeps it from going

sub stop_all {
    my ($dir) = @_;

    for (1 .. 50) {
        my @pids = split ' ', slurp("$dir/cgroup.procs") or last;

        signal 'KILL', @pids;
        sleep 0.1;
    }
}
