package Test::Nginx::Server;

# One nginx in a directory and on a port of its own: written, started,
# stopped, and its logs.  A test file has one, started anew for each block.

use warnings;
use strict;

use Cwd ();
use File::Path qw/ make_path remove_tree /;
use IO::Socket::INET;
use MistralPort ();
use Time::HiRes qw/ sleep time /;
use version;


sub new {
    my ($class) = @_;
    my $self = bless {
        binary        => $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx',
        root          => $ENV{TEST_NGINX_SERVROOT}
                         || Cwd::getcwd() . "/t/servroot_$$",
        port          => $ENV{TEST_NGINX_PORT} || MistralPort::free_port(),
        log_level     => $ENV{TEST_NGINX_LOG_LEVEL} || 'debug',
        master        => $ENV{TEST_NGINX_MASTER_PROCESS} || 'off',
        user          => $ENV{TEST_NGINX_WORKER_USER},
        workers       => 1,
        connections   => 256,
        root_location => 1,
        preamble      => '',
        env           => [],
        owner         => $$,
    }, $class;

    $ENV{TEST_NGINX_SERVER_PORT} = $self->{port};
    $ENV{TEST_NGINX_SERVER_ROOT} = $self->{root};
    $ENV{TEST_NGINX_HTML_DIR} ||= "$self->{root}/html";

    # an end by a signal must not leave a server behind

    $SIG{$_} ||= sub { exit 1 } for qw/ INT TERM HUP /;

    return $self;
}


sub version {
    my ($self) = @_;

    return version->parse("v$1")
        if `$self->{binary} -v 2>&1` =~ m{nginx/(\d+\.\d+\.\d+)};

    die "$self->{binary} says no version\n";
}


sub prepare {
    my ($self) = @_;

    remove_tree($self->{root}) if -d $self->{root};
    make_path(map { "$self->{root}/$_" } qw/ conf html logs /);

    open my $index, '>', "$self->{root}/html/index.html" or die $!;
    print $index "It works!\n";
    close $index;

    $self->{seen} = {};
}


sub configure {
    my ($self, %c) = @_;
    my $root = $self->{root};
    my $level = $c{log_level} || $self->{log_level};
    my $user = $self->{user} // ($> == 0 ? 'root' : undef);
    my $modules = join '', map { "load_module $_;\n" }
                  split ' ', $ENV{TEST_NGINX_LOAD_MODULES} || '';
    my $env = join '', map { /\s/ ? "env '$_';\n" : "env $_;\n" }
              @{ $self->{env} }, map { "${_}SAN_OPTIONS" } qw/ A L UB /;
    my $temp = join '', map { "    ${_}_temp_path $root/${_}_temp;\n" }
               grep { $c{http_config} !~ /\b${_}_temp_path\b/ }
               qw/ client_body proxy fastcgi scgi uwsgi /;
    my $index = $self->{root_location}
                ? "        location / { root $root/html; }\n" : '';

    undef $user if $c{main_config} =~ /^\s*user\s/m;

    open my $out, '>', "$root/conf/nginx.conf" or die $!;
    print $out $modules, $env, $user ? "user $user;\n" : '', <<"EOC";
worker_processes $self->{workers};
daemon on;
master_process $self->{master};
error_log $root/logs/error.log $level;
pid $root/logs/nginx.pid;

$c{main_config}

events {
    worker_connections $self->{connections};
}

http {
    access_log $root/logs/access.log;
    default_type text/plain;
$temp
$c{http_config}

    server {
        listen 127.0.0.1:$self->{port};
        server_name localhost;
        client_max_body_size 30m;

$self->{preamble}
$c{config}
$index    }
}
EOC
    close $out;
}


# undef, or what nginx said; a daemon has its sockets when its parent exits

sub start {
    my ($self) = @_;
    my $root = $self->{root};
    my $said = "$root/logs/stderr";

    system "'$self->{binary}' -p '$root/' -c conf/nginx.conf"
           . " -e logs/error.log > '$said' 2>&1 < /dev/null";

    $self->{exit_signal} = $? & 127;
    $self->{exit_code} = $? >> 8;
    $self->{running} = $? == 0;

    return if $? == 0;

    open my $in, '<', $said or return "status $?";
    local $/;
    return <$in> || "status $?";
}


sub pid {
    my ($self) = @_;

    for (1 .. 100) {
        if (open my $in, '<', "$self->{root}/logs/nginx.pid") {
            my $pid = <$in>;
            return $1 if defined $pid && $pid =~ /^(\d+)$/;
        }

        sleep 0.02;
    }

    return;
}


# a zombie is gone: whoever adopted it may reap late

sub alive {
    my ($pid) = @_;

    open my $in, '<', "/proc/$pid/stat" or return 0;
    my $stat = <$in> // '';

    return $stat !~ /^\d+ \(.*\) [ZX]/;
}


sub stop {
    my ($self) = @_;

    return if !$self->{running};

    $self->{running} = 0;

    my $pid = $self->pid // return;
    my $end = time + 10;

    # a signal before the first epoll_wait() only sets a flag, and without a
    # master nobody wakes the process: it is sent again

    for (my $n = 0; alive($pid) && time < $end; $n++) {
        kill TERM => $pid if $n % 20 == 0;
        sleep 0.01;
    }

    if (alive($pid)) {
        kill KILL => $pid;
        Test::More::ok(0, "nginx ends within 10 s");
    }
}


sub slurp {
    my ($path) = @_;

    open my $in, '<:raw', $path or return '';
    local $/;
    return <$in> // '';
}

# and what nginx says before it has one

sub whole_log {
    my ($self) = @_;

    return slurp("$self->{root}/logs/error.log")
           . slurp("$self->{root}/logs/stderr");
}


# what came since the last call; waits a little until it is enough

sub new_log {
    my ($self, $kind, $enough) = @_;
    my $end = time + 1;
    my $seen = $self->{seen}{$kind} // 0;
    my $log;

    while (1) {
        $log = substr slurp("$self->{root}/logs/$kind.log"), $seen;
        last if $enough->($log) || time > $end;
        sleep 0.02;
    }

    $self->{seen}{$kind} = $seen + length $log;

    return $log;
}


# a directory of a failed test stays: its logs say why

sub finish {
    my ($self) = @_;

    return if $$ != $self->{owner};

    $self->stop;

    remove_tree($self->{root})
        if -d $self->{root} && !$ENV{TEST_NGINX_NO_CLEAN}
           && Test::More->builder->is_passing;
}


1;
