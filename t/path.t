#!/usr/bin/perl

# What "make test-cuda" tests of nginx with a model on a device
# (t/cuda/path_test.py), here with the null model and the CPU: processes that
# are killed, reloads, clients that leave, and the script itself.

use warnings;
use strict;

use Cwd qw/ abs_path /;

my $build = abs_path($ENV{BUILD} || 'build');
my $nginx = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';
my $user = (grep { defined getpwnam $_ } qw/ www-data nobody /)[0];

$ENV{BUILD} = $build;
exec '/usr/bin/python3', '-B', 't/cuda/path_test.py', '--device', 'cpu',
     '--model', 'null:rate=300,celsius=40', '--only',
     'load,reload,worker,cancel,thermal,engine', '--divide', 8, '--long', 700,
     '--workers', 2, '--nginx', $nginx, '--user', $user
    or die "python3: $!";
