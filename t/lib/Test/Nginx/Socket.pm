package Test::Nginx::Socket;

# Runs test files in the block format of OpenResty's Test::Nginx, so that
# they pass with that library too (prove -I<its lib> -It/lib).  Not a word of
# it is here: this one starts a server in milliseconds, needs Test::Base
# alone, and looks at the whole error log of each block after the server is
# gone (no [alert], no [emerg], no report of a sanitizer).
#
# Sections: main_config, http_config, config, request, raw_request,
# pipelined_requests, more_headers, init, user_files, log_level, timeout,
# wait, abort, shutdown, ignore_response, must_die, skip_eval, skip_nginx,
# error_code(_like), response_headers(_like), raw_response_headers_like and
# _unlike, response_body(_like, _unlike), error_log, no_error_log,
# grep_error_log(_out), access_log, no_access_log.
#
# Environment: TEST_NGINX_BINARY, _PORT, _SERVROOT, _LOAD_MODULES, _LOG_LEVEL,
# _TIMEOUT, _WORKER_USER, _MASTER_PROCESS, _NO_CLEAN, _VERBOSE.

use warnings;
use strict;

use Test::Base -base;

use Cwd ();
use File::Path qw/ make_path remove_tree /;
use IO::Select;
use IO::Socket::INET;
use Scalar::Util qw/ looks_like_number /;
use Time::HiRes qw/ sleep time /;

use Test::Nginx::Server;

our @EXPORT = qw/
    run_tests repeat_each no_shuffle no_long_string no_root_location
    master_on master_off workers worker_connections log_level timeout
    env_to_nginx config_preamble add_block_preprocessor add_cleanup_handler
    add_response_body_check server_addr server_name server_port
    server_port_for_client server_root html_dir bail_out
/;

my ($Repeat, $Timeout) = (1, $ENV{TEST_NGINX_TIMEOUT} || 3);
my (@Preprocessors, @Cleanups, @Body_checks, $Last_config);
my $Server = Test::Nginx::Server->new;

sub repeat_each (@) { @_ ? $Repeat = shift : $Repeat }
sub timeout (@) { @_ ? $Timeout = shift : $Timeout }
sub no_shuffle () { }                          # blocks run in order anyway
sub no_long_string () { }
sub no_root_location () { $Server->{root_location} = 0 }
sub master_on () { $Server->{master} = 'on' }
sub master_off () { $Server->{master} = 'off' }
sub workers (@) { @_ ? $Server->{workers} = shift : $Server->{workers} }
sub worker_connections (@) { $Server->{connections} = shift if @_ }
sub log_level (@) { @_ ? $Server->{log_level} = shift : $Server->{log_level} }
sub env_to_nginx (@) { push @{ $Server->{env} }, @_ }
sub config_preamble ($) { $Server->{preamble} = shift }
sub add_block_preprocessor (&) { unshift @Preprocessors, shift }
sub add_cleanup_handler ($) { push @Cleanups, shift }
sub add_response_body_check ($) { push @Body_checks, shift }
sub server_addr (@) { '127.0.0.1' }
sub server_name (@) { 'localhost' }
sub server_port (@) { $Server->{port} }
sub server_port_for_client (@) { $Server->{port} }
sub server_root () { $Server->{root} }
sub html_dir () { "$Server->{root}/html" }


# ends this program; BAIL_OUT would stop all others, too

sub bail_out (@) {
    Test::More::ok(0, join '', @_);
    exit 1;
}


sub run_tests () {
    for my $block (Test::Base::blocks()) {
        $_->($block) for @Preprocessors;
        run_block($block);
    }

    $_->() for @Cleanups;
}


sub run_block {
    my ($block) = @_;
    my $name = $block->name;

    if (my ($count, $why) = skipped($block)) {
        SKIP: { Test::More::skip("$name - $why", $count * $Repeat) }
        return;
    }

    my $config = $block->config // $Last_config;
    bail_out("$name - no config section") if !defined $config;
    $Last_config = $config;

    $Server->prepare;
    write_files($block);
    $Server->configure(config      => expand($config),
                       http_config => expand($block->http_config // ''),
                       main_config => expand($block->main_config // ''),
                       log_level   => scalar $block->log_level);

    if (defined $block->must_die) {
        check_death($block) for 1 .. $Repeat;

    } elsif (defined(my $err = $Server->start)) {
        ok(0, "$name - nginx does not start: $err");

    } else {
        run_requests($block);
        $Server->stop;
    }

    check_whole_log($block);
}


sub skipped {
    my ($block) = @_;

    if (defined $block->skip_eval) {
        my ($count, $code) = $block->skip_eval =~ /^\s*(\d+)\s*:\s*(.*)/s
            or bail_out($block->name . ' - bad skip_eval');
        my $skip = eval $code;
        bail_out($block->name . " - skip_eval: $@") if $@;
        return ($count, 'skip_eval') if $skip;
    }

    if (defined $block->skip_nginx) {
        my ($count, $op, $version) = $block->skip_nginx
            =~ /^\s*(\d+)\s*:\s*([<>]=?)\s*(\d+\.\d+\.\d+)/
            or bail_out($block->name . ' - bad skip_nginx');
        my $cmp = $Server->version <=> version->parse("v$version");
        return ($count, "nginx $op $version")
            if $op =~ /=/ && $cmp == 0 || $cmp == ($op =~ /</ ? -1 : 1);
    }

    return;
}


# $TEST_NGINX_NAME is the environment's

sub expand {
    my ($text) = @_;

    return $text if !defined $text || ref $text;

    $text =~ s{\$(TEST_NGINX_[A-Z0-9_]+)}{
        $ENV{$1} // bail_out("$1 is not in the environment") }ge;

    return $text;
}


sub write_files {
    my ($block) = @_;
    my $files = $block->user_files // return;

    if (!ref $files) {
        my @list = split /^>>> *(\S+)(?: +(\S.*))?\n/m, $files;
        shift @list;
        $files = [];

        while (my ($path, $date, $body) = splice @list, 0, 3) {
            push @$files, [$path, $body, $date];
        }
    }

    for my $file (@$files) {
        my ($path, $body, $date) = @$file;

        $path = html_dir . "/$path" if $path !~ m{^/};
        make_path($path =~ m{(.*)/});

        open my $out, '>:raw', $path or bail_out("$path: $!");
        print $out expand($body // '');
        close $out;

        system('touch', '-t', $date, $path) if defined $date;
    }
}


sub check_death {
    my ($block) = @_;
    my $name = $block->name;
    my $must = $block->must_die;
    my $err = $Server->start;
    my $code = $Server->{exit_code};

    if ($Server->{exit_signal}) {
        ok(0, "$name - nginx was killed by signal $Server->{exit_signal}");

    } elsif (looks_like_number($must)) {
        is($code, $must, "$name - nginx exits with $must");

    } else {
        ok($code, "$name - nginx does not start");
    }

    $Server->stop if !defined $err;
    check_logs($block, 0);
}


sub run_requests {
    my ($block) = @_;
    my $name = $block->name;

    if ($block->init) {
        eval $block->init;
        bail_out("$name - init: $@") if $@;
    }

    for my $round (0 .. $Repeat - 1) {
        my @requests = requests($block) or bail_out("$name - no request");
        my $pipelined = $block->pipelined_requests;
        my $many = $pipelined || @requests > 1;
        my $index = 0;

        for my $request (@requests) {
            my $raw = talk($block, $request);
            my @heads = $pipelined ? (@$pipelined)
                                   : (join '', map { $_->{value} } @$request);

            for my $head (@heads) {
                my $res;

                if (!defined $block->ignore_response) {
                    $res = response(\$raw, $head =~ /^\s*HEAD\s/);
                    check_response($block, $res, $index, $many);
                }

                if ($index < ($pipelined ? @heads : @requests) - 1) {
                    sleep $block->wait if $block->wait;
                    check_logs($block, $round);
                }

                $index++;
            }
        }

        sleep $block->wait if $block->wait;
        check_logs($block, $round);
    }
}


# list of requests, each a list of packets { value, delay_before }

sub requests {
    my ($block) = @_;
    my $raw = $block->raw_request;
    my $request = $block->request;

    if (defined $raw) {
        my @packets = map { +{ value => $_ } } ref $raw ? @$raw : $raw;
        $packets[$_]{delay_before} = $block->raw_request_middle_delay
            for 1 .. $#packets;
        return \@packets;
    }

    my $list = $block->pipelined_requests;
    my @all = $list ? @$list : ref $request ? @$request
            : defined $request ? $request : ();

    for my $i (0 .. $#all) {
        my $headers = $block->more_headers // '';
        $headers = $headers->[$i] if ref $headers;
        bail_out($block->name . " - no more_headers for request $i")
            if !defined $headers;

        $all[$i] = build($all[$i], expand($headers),
                         $list && $i < $#all ? 'keep-alive' : 'close');
    }

    return $list ? [map { @$_ } @all] : @all;
}


# "GET /url" and a body to a whole request, the borders of packets kept

sub build {
    my ($request, $more, $connection) = @_;
    my @packets = ref $request ? @$request : ($request);

    @packets = map { ref $_ ? +{ %$_ } : +{ value => $_ } } @packets;

    my $text = expand(join '', map { $_->{value} } @packets);

    if (!ref $request) {
        1 while $text =~ s/^\s*#[^\n]*\n\s*|^\s+//;
    }

    my ($line, $body) = split /\n/, $text, 2;
    my ($method, $url, $version) = split ' ', $line;
    my @headers = grep { !/^\s*#/ && length } split /\n+/, $more;
    my $has = sub { my $h = shift; grep { /^$h\s*:/i } @headers };

    if (defined $body && !$has->('Transfer-Encoding')
        && !$has->('Content-Length'))
    {
        $body =~ s/^\s+|\s+$//g;
        push @headers, 'Content-Length: ' . length $body if length $body;
    }

    unshift @headers, "Connection: $connection" if !$has->('Connection');
    unshift @headers, 'Host: localhost' if !$has->('Host');

    my $first = join(' ', $method, $url // '/', $version // 'HTTP/1.1')
                . "\r\n";
    my $rest = join('', map { s/\r?$/\r\n/r } @headers) . "\r\n"
               . ($body // '');

    return [{ value => $first . $rest }] if @packets == 1;

    # all headers go out with the packet that ends the first line

    my ($sent, $all, $at) = (0, $first . $rest, 0);
    my $grown = length($all) - length($text);

    for my $packet (@packets) {
        $at += length $packet->{value};
        my $end = $at <= length $line ? $at : $at + $grown;
        $end = length $all if $packet == $packets[-1];
        $packet->{value} = substr $all, $sent, $end - $sent;
        $sent = $end;
    }

    return \@packets;
}


# sends the packets and reads until the server closes; "timeout" is idle time

sub talk {
    my ($block, $packets) = @_;
    my $name = $block->name;
    my $timeout = seconds($block->timeout) // $Timeout;
    my $got = '';

    my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                                       PeerPort => $Server->{port});

    if (!$socket) {
        ok(0, "$name - cannot connect: $!");
        return '';
    }

    local $SIG{PIPE} = 'IGNORE';

    for my $packet (@$packets) {
        sleep $packet->{delay_before} if $packet->{delay_before};
        my $left = $packet->{value};

        # an early refusal may leave the rest unread

        while (length $left) {
            my $n = syswrite $socket, $left;
            last if !defined $n;
            substr $left, 0, $n, '';
        }

        sleep $packet->{delay_after} if $packet->{delay_after};
    }

    if (defined $block->shutdown) {
        shutdown $socket, looks_like_number($block->shutdown)
                          ? $block->shutdown : 1;
    }

    my $select = IO::Select->new($socket);

    while (1) {
        if (!$select->can_read($timeout)) {
            ok(0, "$name - no end of the answer for $timeout s: $got")
                if !defined $block->abort;
            last;
        }

        my $n = sysread $socket, $got, 65536, length $got;
        last if !$n;
    }

    close $socket;

    return $got;
}


# in list context a section that is not there is no element at all

sub section {
    my ($block, $name) = @_;

    return scalar $block->$name;
}


sub seconds {
    my ($time) = @_;

    return if !defined $time;
    return $1 / 1000 if $time =~ /^([\d.]+)ms$/;
    return $time =~ s/s$//r;
}


# takes one response off the front of $$raw

sub response {
    my ($raw, $head) = @_;
    my %res = (code => '', raw_headers => '', headers => {});

    $$raw =~ s{^(HTTP/1\.[01] (\d{3})[^\r\n]*\r\n(?:[^\r\n]+\r\n)*)\r\n}{}
        or return \%res;

    ($res{raw_headers}, $res{code}) = ($1, $2);

    for my $line (split /\r\n/, $res{raw_headers}) {
        my ($key, $value) = $line =~ /^([^:\s]+):\s*(.*?)\s*$/ or next;
        push @{ $res{headers}{lc $key} }, $value;
    }

    my $length = $res{headers}{'content-length'};

    if ($head || $res{code} =~ /^(?:1..|204|304)$/) {
        $res{body} = '';

    } elsif (grep { lc eq 'chunked' }
             @{ $res{headers}{'transfer-encoding'} // [] })
    {
        $res{body} = dechunk($raw);

    } else {
        $res{body} = substr $$raw, 0, $length ? $length->[0] : length $$raw,
                            '';
    }

    return \%res;
}


# undef where the last chunk is missing: a stream that was cut

sub dechunk {
    my ($raw) = @_;
    my $body = '';

    while ($$raw =~ s/^[ \t]*([0-9A-Fa-f]+)[^\r\n]*\r\n//) {
        my $n = hex $1;

        if ($n == 0) {
            $$raw =~ s/^(?:[^\r\n]+\r\n)*\r\n//;
            return $body;
        }

        $body .= substr $$raw, 0, $n, '';
        $$raw =~ s/^\r\n//;
    }

    ok(0, 'a chunked response has its last chunk') or diag $body;

    return $body;
}


sub expected {
    my ($block, $section, $index, $many) = @_;
    my $value = $block->$section;

    return expand(ref $value eq 'ARRAY' ? $value->[$index] : $value)
        if !$many || ref $value eq 'ARRAY';

    return bail_out($block->name . " - $section must be a list");
}


sub check_response {
    my ($block, $res, $index, $many) = @_;
    my $name = $block->name . ($many ? " (request $index)" : '');
    my $want = sub { expected($block, $_[0], $index, $many) };
    my $body = $res->{body};

    if (defined $block->error_code_like) {
        my $re = $want->('error_code_like');
        like($res->{code}, qr/$re/sm, "$name - status");

    } else {
        is($res->{code}, defined $block->error_code ? $want->('error_code')
                                                    : 200, "$name - status");
    }

    check_headers($block, $res, $name, $want);

    if (defined $block->response_body) {
        my $text = $want->('response_body');
        ref $text ? like($body, $text, "$name - body")
                  : is($body, $text, "$name - body");

    } elsif (defined $block->response_body_like) {
        my $re = $want->('response_body_like');
        like($body, qr/$re/s, "$name - body");

    } elsif (defined $block->response_body_unlike) {
        my $re = $want->('response_body_unlike');
        unlike($body, qr/$re/s, "$name - body");
    }

    $_->($block, $body, $index) for @Body_checks;
}


sub check_headers {
    my ($block, $res, $name, $want) = @_;

    if (defined $block->raw_response_headers_like) {
        my $re = $want->('raw_response_headers_like');
        like($res->{raw_headers}, qr/$re/s, "$name - raw headers");
    }

    if (defined $block->raw_response_headers_unlike) {
        my $re = $want->('raw_response_headers_unlike');
        unlike($res->{raw_headers}, qr/$re/s, "$name - raw headers");
    }

    my ($section) = grep { defined $block->$_ }
                    qw/ response_headers response_headers_like /;

    return if !$section;

    for my $line (grep { /\S/ } split /\n/, $want->($section)) {

        if ($line =~ /^\s*!\s*(\S+)/) {
            unlike($res->{raw_headers}, qr/^\s*\Q$1\E\s*:/mi,
                   "$name - no header $1");
            next;
        }

        my ($key, $value) = $line =~ /^\s*([^:\s]+)\s*:\s*(.*?)\s*$/
            or bail_out("$name - bad line in $section: $line");
        my $got = join ', ', @{ $res->{headers}{lc $key} // [] };

        $section =~ /like/ ? like($got, qr/^$value$/, "$name - header $key")
                           : is($got, $value, "$name - header $key");
    }
}


# lines or a list of strings and expressions

sub patterns {
    my ($value) = @_;

    return ref $value eq 'ARRAY' ? @$value : ref $value ? $value
           : map { expand($_) } grep { length } split /\n+/, $value;
}

sub found {
    my ($log, $pattern) = @_;

    return ref $pattern ? $log =~ $pattern : index($log, $pattern) >= 0;
}


sub check_logs {
    my ($block, $round) = @_;
    my $name = $block->name;

    for my $kind (qw/ error access /) {
        next if $kind eq 'access' && defined $block->ignore_response;

        my ($yes, $no) = map { section($block, $_) }
                         "${kind}_log", "no_${kind}_log";
        my @yes = defined $yes ? patterns($yes) : ();
        my $log = $Server->new_log($kind, sub {
            my ($text) = @_;
            return !grep { !found($text, $_) } @yes;
        });

        for my $pattern (@yes) {
            ok(found($log, $pattern), "$name - $kind log has \"$pattern\"");
        }

        for my $pattern (defined $no ? patterns($no) : ()) {
            my ($line) = grep { found($_, $pattern) } split /\n/, $log;
            ok(!defined $line, "$name - no \"$pattern\" in $kind log")
                or diag $line;
        }

        grep_log($block, $log, $round)
            if $kind eq 'error' && defined $block->grep_error_log;
    }
}


sub grep_log {
    my ($block, $log, $round) = @_;
    my $pattern = $block->grep_error_log;
    my $want = $block->grep_error_log_out;
    my $got = '';

    $pattern = $pattern->[$round] if ref $pattern eq 'ARRAY';
    $want = $want->[$round] if ref $want eq 'ARRAY';
    $pattern = quotemeta $pattern if !ref $pattern;

    for my $line (split /\n/, $log) {
        $got .= "$&\n" if $line =~ $pattern;
    }

    ref $want ? like($got, $want, $block->name . ' - grep_error_log_out')
              : is($got, $want, $block->name . ' - grep_error_log_out');
}


# counted only where it fails, so that plans are the same as upstream's

sub check_whole_log {
    my ($block) = @_;
    my $name = $block->name;
    my $said = join ' ', map { patterns($_) } grep { defined }
               $block->error_log, $block->no_error_log;

    for my $line (split /\n/, $Server->whole_log) {

        if ($line =~ /\[(alert|emerg)\]/) {
            next if defined $block->must_die || $said =~ /\[?$1/;
            ok(0, "$name - $line");

        } elsif ($line =~ /AddressSanitizer|memory leaks|runtime error:/) {
            ok(0, "$name - $line")
                or diag join "\n", grep { !/\[debug\]/ } split /\n/,
                                         $Server->whole_log;
            last;
        }
    }
}


END {
    local $?;
    $Server->finish if $Server;
}


1;
