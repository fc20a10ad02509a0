#!/usr/bin/perl

# conf.d/nginx.service.d: systemd accepts it beside Debian's unit, and the
# Exec lines of both together do what they say: reload under a stream, and a
# stop that waits for a stream which is longer than Debian's five seconds.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use File::Copy qw/ copy /;
use File::Temp qw/ tempdir /;
use IO::Socket::INET;
use MistralPort qw/ free_port /;
use Test::More;
use Text::ParseWords qw/ shellwords /;
use Time::HiRes qw/ sleep time /;

my $unit = '/lib/systemd/system/nginx.service';
my $dropin = 'conf.d/nginx.service.d/mistral.conf';
my $build = abs_path($ENV{BUILD} || 'build');
my $prefix = tempdir(CLEANUP => 1);
my $port = free_port();

plan skip_all => "no $unit: not Debian's nginx" if !-e $unit;

$SIG{PIPE} = 'IGNORE';
$SIG{ALRM} = sub { die "systemd.t hangs\n" };
alarm 240;

verify();
lines();
done_testing();


# systemd-analyze ends with 0 when a key is unknown: it must say nothing

sub verify {
    my $dir = "$prefix/units";

    mkdir $_ or die $! for $dir, "$dir/nginx.service.d";
    copy($unit, $dir) or die $!;
    copy($dropin, "$dir/nginx.service.d") or die $!;

    SKIP: {
        skip 'systemd-analyze is not installed', 2
            if !grep { -x "$_/systemd-analyze" } split /:/, $ENV{PATH};

        my $run = "SYSTEMD_UNIT_PATH=$dir: systemd-analyze verify"
                  . " $dir/nginx.service 2>&1";

        is(`$run`, '', 'systemd-analyze verify has nothing to say');

        open my $fh, '>>', "$dir/nginx.service.d/mistral.conf" or die $!;
        print $fh "NoSuchKey=1\n";
        close $fh;

        like(`$run`, qr/NoSuchKey/, 'and it does read the drop-in');
    }
}


# the Exec lines as systemd has them: an empty value forgets those before

sub exec_lines {
    my %lines;

    for my $file ($unit, $dropin) {
        open my $fh, '<', $file or die "$file: $!";

        while (<$fh>) {
            my ($key, $value) = /^(Exec\w+)=\s*-?(.*?)\s*$/ or next;

            if (length $value) {
                push @{ $lines{$key} }, $value;
            } else {
                $lines{$key} = [];
            }
        }
    }

    return %lines;
}


# this test's nginx instead of the machine's

sub run {
    my ($line) = @_;
    my @args = map { s{^/run/nginx\.pid$}{$prefix/nginx.pid}r }
               shellwords($line);

    push @args, '-p', $prefix, '-c', "$prefix/nginx.conf",
                '-e', "$prefix/error.log" if $args[0] =~ m{/nginx$};

    return system @args;
}


sub lines {
    my %lines = exec_lines();

    write_conf();

    for my $key (qw/ ExecStartPre ExecStart /) {
        is(scalar @{ $lines{$key} }, 1, "one $key");
        is(run($lines{$key}[0]), 0, $key);
    }

    ok(wait_for(sub { get('/ready') =~ m{^HTTP/1.1 200} }), 'ready');

    my $master = pid();
    my $stream = connection();
    my $body = '{"prompt":"a","max_tokens":650,"stream":true}';

    print $stream "POST /v1/completions HTTP/1.0\r\nContent-Length: ",
                  length $body, "\r\n\r\n$body";

    my $first = <$stream> // '';
    my $began = time;

    like($first, qr/ 200 /, 'a stream');

    is(run($lines{ExecReload}[0]), 0, 'ExecReload');
    ok(wait_for(sub { get('/ready') =~ m{^HTTP/1.1 200} }), 'ready');
    is(pid(), $master, 'the same master');

    is(scalar @{ $lines{ExecStop} }, 1, 'one ExecStop');
    is(run($lines{ExecStop}[0]), 0, 'ExecStop');

    cmp_ok(time - $began, '>', 5.5, 'it took longer than 5 s');

    my $rest = do { local $/; <$stream> };

    is(scalar(() = $rest =~ /"text":"[^"]/g), 650, 'the stream is whole');
    like($rest, qr/data: \[DONE\]\n\n\z/, 'to its end');
    ok(!kill(0, $master), 'nginx is gone');
    ok(wait_for(sub { !left() }), 'and so are its engines')
        or diag left();
}


sub write_conf {
    my ($user) = grep { defined getpwnam $_ } qw/ www-data nobody /;

    chmod 0755, $prefix;

    open my $fh, '>', "$prefix/nginx.conf" or die $!;
    print $fh $> == 0 ? "user $user;\n" : '', <<"EOC";
load_module $build/ngx_http_mistral_module.so;
pid nginx.pid;
error_log $prefix/error.log notice;
events {}
http {
    access_log off;
    client_body_temp_path temp;
    proxy_temp_path temp;
    fastcgi_temp_path temp;
    uwsgi_temp_path temp;
    scgi_temp_path temp;
    mistral_model null { path null:rate=100; context 4096; }
    server {
        listen 127.0.0.1:$port;
        location /v1/ { mistral_pass null; }
        location = /ready { mistral_health ready; }
    }
}
EOC
    close $fh or die $!;
}


sub connection {
    return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
}

sub get {
    my ($path) = @_;
    my $socket = connection() or return '';

    print $socket "GET $path HTTP/1.0\r\n\r\n";

    local $/;
    return <$socket> // '';
}

sub wait_for {
    my ($check) = @_;
    my $end = time + 10;

    while (time < $end) {
        return 1 if $check->();
        sleep 0.05;
    }

    return 0;
}

sub pid {
    open my $fh, '<', "$prefix/nginx.pid" or return 0;
    my ($pid) = <$fh> =~ /(\d+)/;

    return $pid;
}


# supervisors and engines that this nginx has started

sub left {
    open my $fh, '<', "$prefix/error.log" or die $!;
    my @started = map { /start supervisor .*: ok (\d+)$/ } <$fh>;

    @started or return 'no supervisor was ever started';

    return join ' ', grep { kill 0, $_ } @started;
}


END {
    local $?;
    my $pid = pid();

    kill TERM => $pid if $pid;
}
