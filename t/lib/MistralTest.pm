package MistralTest;

# What the blocks of t/*.t share: the module is loaded, a block waits until
# its engines are ready, answers are compared but for ids and times.  For
# upstream's Test::Nginx as well as for the runner beside this file.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use File::Temp qw/ tempdir /;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw/ sleep time /;

use Test::Nginx::Socket;

our @EXPORT = qw/ answer fox build certificate curl ready_on /;

my $Build = abs_path($ENV{BUILD} || 'build');
my @Stopped;
my $Fox = 'The quick brown fox jumps over the lazy dog. ';


sub import {
    my $to = caller;

    no strict 'refs';
    *{"${to}::$_"} = \&$_ for @EXPORT;
}


# upstream's library has read the environment by now

BEGIN {
    my $build = abs_path($ENV{BUILD} || 'build') // 'build';

    no warnings 'once';
    $ENV{TEST_NGINX_LOAD_MODULES} //= "$build/ngx_http_mistral_module.so";
    $Test::Nginx::Util::LoadModules //= $ENV{TEST_NGINX_LOAD_MODULES};
    $ENV{TEST_NGINX_HTML_DIR} //= html_dir();
}


sub build { $Build }


# the first n tokens of the null model

sub fox {
    my ($n) = @_;

    return substr $Fox x (1 + $n / length $Fox), 0, $n;
}


# an expression for a whole body: ID and TIME stand for what changes

sub answer {
    my ($text) = @_;

    $text =~ s/\n\z//;
    $text = quotemeta $text;
    $text =~ s/ID/(?:chatcmpl|cmpl)-[0-9a-f]{32}/g;
    $text =~ s/TIME/[0-9]{10}/g;

    return qr/\A$text\s*\z/;
}


# a certificate of our own for "localhost": $TEST_NGINX_CERT/crt and key

sub certificate {
    my $dir = tempdir(CLEANUP => 1);
    my $said = `openssl req -x509 -newkey rsa:2048 -nodes -days 2 \\
                -subj /CN=localhost -addext subjectAltName=DNS:localhost \\
                -keyout $dir/key -out $dir/crt 2>&1`;

    die "openssl: $said\n" if $? != 0;

    $ENV{TEST_NGINX_CERT} = $dir;
}


# what curl prints of a POST, over a unix socket of the block

sub curl {
    my ($url, $body, @options) = @_;
    my $socket = html_dir() . '/socket';

    open my $out, '-|', 'curl', '-sS', '--max-time', 10, '--unix-socket',
        $socket, '-H', 'Content-Type: application/json', '-d', $body,
        '-w', "\n%{http_code} HTTP/%{http_version}", @options, $url
        or die "curl: $!\n";

    local $/;
    return <$out> // '';
}


# every block gets a location that says when its engines are there, and waits
# for them; not in the block's own config, which other preprocessors may set

sub ready_on {
    config_preamble('location = /ready { access_log off;'
                    . ' mistral_health ready; }');

    add_block_preprocessor(sub {
        my ($block) = @_;

        return if defined $block->must_die || defined $block->no_ready;

        $block->set_value('init', 'MistralTest::wait_ready();'
                                  . ($block->init // ''));
    });
}


sub get {
    my ($path) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => server_port())
        or return '';
    print $socket "GET $path HTTP/1.0\r\n\r\n";

    local $/;
    return <$socket> // '';
}


sub wait_ready {
    my $end = time + 60;

    while (time < $end) {
        return if get('/ready') =~ m{^HTTP/1.1 200};
        sleep 0.02;
    }

    die "the engines are not ready\n";
}


# a request that is in work until the test ends

my @Held;

sub hold {
    my ($path, $body) = @_;

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => server_port())
        or die "no server\n";

    print $socket "POST $path HTTP/1.0\r\nContent-Length: ",
                  length $body, "\r\n\r\n$body";
    @Held = $socket;                           # the last one's is closed

    my $end = time + 10;

    while (time < $end) {
        return if get('/status') =~ /"running":1,/;
        sleep 0.02;
    }

    die "a request does not run\n";
}


# its heartbeat ends, and no supervisor restarts it

sub stop_engine {
    my ($model) = @_;

    my ($pid) = get('/status') =~ /"model":"$model".*?"engine_pid":(\d+)/s
        or die "no engine of $model\n";
    my $super = parent($pid);

    kill STOP => $super, $pid;
    push @Stopped, $super, $pid;

    my $end = time + 10;

    while (time < $end) {
        return if get('/ready') =~ m{^HTTP/1.1 503};
        sleep 0.05;
    }

    die "a stopped engine is still ready\n";
}

# kill -9 as soon as a request runs that has not had an answer; the request
# is the block's own, so a child waits for it

sub kill_at_work {
    my ($model) = @_;
    my ($pid) = get('/status') =~ /"model":"$model".*?"engine_pid":(\d+)/s
        or die "no engine of $model\n";
    my $child = fork // die "fork: $!\n";

    return if $child;

    my $end = time + 10;

    while (time < $end) {
        if (get('/status') =~ /"model":"$model",.*?"running":1,/s) {
            kill KILL => $pid;
            last;
        }

        sleep 0.02;
    }

    POSIX::_exit(0);
}

sub parent {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/status" or die "no process $pid\n";

    my ($parent) = map { /^PPid:\s*(\d+)/ } <$fh>;

    return $parent;
}

END {
    kill CONT => @Stopped if @Stopped;
}


1;
