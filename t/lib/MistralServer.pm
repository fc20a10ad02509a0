package MistralServer;

# Servers of a few lines that answer as they are told, for what asks one
# (t/tools_bench.t).  They end with the test.

use warnings;
use strict;

use Exporter qw/ import /;
use IO::Select;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Socket qw/ IPPROTO_TCP TCP_CORK /;
use Time::HiRes qw/ sleep /;

use MistralProgram;

our @EXPORT = qw/ server seen answer stream /;

my @servers;


# a server in a process of its own: one request after the other on each
# connection; "handler" returns the bytes of an answer, '' closes, an answer
# that ends with "hold" keeps the connection open, so do parts that end with a
# reference

sub server {
    my ($handler) = @_;
    my $s = IO::Socket::INET->new(Listen => 128, LocalAddr => '127.0.0.1')
            or die "listen: $!";
    my $port = $s->sockport;
    my $pid = fork // die "fork: $!";

    if ($pid == 0) {
        serve($s, $port, $handler);
        POSIX::_exit(0);
    }

    push @servers, $pid;

    return $port;
}


sub serve {
    my ($s, $port, $handler) = @_;
    my $select = IO::Select->new($s);
    my (%first, %buf);

    open my $log, '>>', "$Dir/seen.$port" or die;
    $log->autoflush;

    for ( ;; ) {
        for my $c ($select->can_read) {

            if ($c == $s) {
                my $new = $s->accept or next;
                $select->add($new);
                $first{$new} = 1;
                $buf{$new} = '';
                next;
            }

            my $n = sysread $c, $buf{$c}, 65536, length $buf{$c};
            my ($head, $rest) = split /(?<=\r\n\r\n)/, $buf{$c}, 2;
            my ($len) = ($head // '') =~ /\r\nContent-Length: (\d+)/;

            if (!$n) {
                $select->remove($c);
                close $c;
                next;
            }

            next if !defined $len || length($rest // '') < $len;

            my $request = { head => $head, body => decode_json($rest),
                            first => $first{$c} };
            $buf{$c} = '';
            $first{$c} = 0;
            print $log encode_json($request), "\n";

            my $answer = $handler->($request);
            my @parts = ref $answer ? @$answer : ($answer);

            for my $part (@parts) {
                ref $part ? wait_or($c, $$part) : syswrite $c, $part;
            }

            next if ref $parts[-1];
            next if @parts == 1 && $answer =~ /hold\z/;
            next if $parts[-1] =~ /0\r\n\r\n\z/
                    || $parts[0] =~ /\r\nContent-Length: \d+\r\n\r\n.*[^x]\z/s;

            $select->remove($c);
            close $c;
        }
    }
}


# between two parts: "cork" keeps what follows for "end", which sends it and
# the end of our half at once; a number are seconds

sub wait_or {
    my ($c, $what) = @_;

    if ($what eq 'cork') {
        setsockopt $c, IPPROTO_TCP, TCP_CORK, 1 or die "TCP_CORK: $!";
    } elsif ($what eq 'end') {
        shutdown $c, 1;
    } else {
        sleep $what;
    }
}


# what a server was asked since the last call

sub seen {
    my ($port) = @_;
    my @seen = map { decode_json($_) } split /\n/, slurp("$Dir/seen.$port");

    truncate "$Dir/seen.$port", 0;

    return @seen;
}


sub answer {
    my ($status, $body) = @_;

    return "HTTP/1.1 $status X\r\nContent-Type: application/json\r\n"
           . 'Content-Length: ' . length($body) . "\r\n\r\n$body";
}


# events in chunks, each some time after the other

sub stream {
    my ($pause, @words) = @_;
    my @events = ('{"choices":[{"delta":{"role":"assistant","content":""}}]}',
                  (map { '{"choices":[{"delta":{"content":"' . $_ . '"}}]}' }
                   @words),
                  '{"choices":[],"usage":{"prompt_tokens":10,'
                  . '"completion_tokens":' . @words
                  . ',"prompt_tokens_details":{"cached_tokens":2}}}',
                  '[DONE]');
    my @parts = ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                 . "Transfer-Encoding: chunked\r\n\r\n");

    for my $event (@events) {
        my $text = "data: $event\n\n";
        push @parts, \$pause if @parts > 1 && @parts < 2 * @words + 1;
        push @parts, sprintf("%x\r\n%s\r\n", length $text, $text);
    }

    return [@parts, "0\r\n\r\n"];
}


END {
    my $code = $?;

    # a child that dies in here is not us

    kill 'KILL', @servers if @servers;
    waitpid $_, 0 for @servers;
    $? = $code;
}

1;
