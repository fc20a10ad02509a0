package MistralLife;

# What the life-cycle tests share (t/life*.t, t/metrics.t): an nginx of their
# own in a directory of its own, its processes, and clients of it.
#
# The functions work on the current server.  server() makes one and makes it
# current, use_server() changes to another: most tests have one only.
#
#     server(closed => 1);     module, program and text in a directory that
#                              only root can enter
#     conf(model => '...');    writes nginx.conf
#     nginx();                 starts it, as from a shell
#     ready(); answer(20);     asks it
#
# Whatever a test leaves behind is killed at its end, by pids that are its own
# only: the program is a copy, whose path no other process has.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use Exporter qw/ import /;
use File::Copy qw/ copy /;
use File::Temp qw/ tempdir /;
use IO::Select;
use IO::Socket::INET;
use MistralPort qw/ free_port /;
use POSIX qw/ :sys_wait_h /;
use Test::More;
use Time::HiRes qw/ sleep time /;

our @EXPORT = qw/ server use_server conf nginx reload run_nginx stop_nginx
                  signal programs engine supervisor another_supervisor master
                  another_master children workers parent cmdline field alive
                  gone fds has_peer foreign_fds request get fetch chat post
                  answer stream_of stream read_some finish read_all status ready wait_for log_text
                  log_since mark no_alerts nothing_left slurp write_file
                  free_port text user time_out sanitized $Build $Nginx /;

our $Build = abs_path($ENV{BUILD} || 'build');
our $Nginx = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';

my $User = (grep { defined getpwnam $_ } qw/ www-data nobody /)[0];
my $Text = join '', map { "Sentence number $_ of a long answer. " } 1 .. 50;
my $Owner = $$;
my ($S, @Servers);

$SIG{PIPE} = 'IGNORE';


sub user { $User }

# what the model "null:text=closed/answer" says

sub text { return substr $Text, 0, $_[0] // length $Text }

# a test that hangs fails alone; a busy machine has four times as long

sub time_out {
    my ($seconds) = @_;

    $SIG{ALRM} = sub { die "$0 hangs\n" };
    alarm 4 * $seconds;
}


# built with ASan, which keeps what is freed and takes ten times as long

sub sanitized {
    return slurp("$Build/mistral") =~ /libasan\.so/;
}


# a prefix, a port, a copy of module and program

sub server {
    my %o = (@_);
    my $prefix = tempdir(CLEANUP => !$ENV{LIFE_KEEP});
    my $closed = "$prefix/closed";

    diag $prefix if $ENV{LIFE_KEEP};

    chmod 0755, $prefix;
    mkdir "$prefix/$_" or die $! for qw/ logs temp closed /;
    chmod $o{open} ? 0755 : 0700, $closed;

    copy("$Build/ngx_http_mistral_module.so", "$closed/module.so") or die $!;
    copy($ENV{LIFE_PROGRAM} || "$Build/mistral", "$closed/mistral") or die $!;
    chmod 0755, "$closed/mistral";
    write_file("$closed/answer", $Text);

    $S = { prefix => $prefix, closed => $closed, port => free_port(),
           program => "$closed/mistral", pid => "$prefix/nginx.pid",
           log => "$prefix/logs/error.log", marked => 0, pids => {} };

    push @Servers, $S;

    return $S;
}

sub use_server {
    ($S) = @_;
    return $S;
}


# a configuration and nginx itself

sub conf {
    my %o = (main => '', http => '', server => '', events => '', pre => '',
             connections => 256, workers => 2, model => 'path null:text=closed/answer,rate=50;',
             locations => '', @_);

    my $pass = $o{none} ? '' : "location /v1/ { mistral_pass m; }\n"
                               . "location = /status { mistral_status json; }";
    my $model = $o{none} ? '' : "mistral_model m { $o{model} }";
    my $run_as = $> == 0 && $o{main} !~ /^user /m ? "user $User;" : '';
    my $log = $o{main} =~ /error_log/ ? '' : 'error_log logs/error.log notice;';

    write_file("$S->{prefix}/nginx.conf", <<"END");
load_module closed/module.so;
pid               nginx.pid;
worker_processes  $o{workers};
env               LD_PRELOAD;
env               ASAN_OPTIONS;
env               UBSAN_OPTIONS;
env               LSAN_OPTIONS;
$log
$run_as
$o{main}
events { worker_connections $o{connections}; $o{events} }
http {
    access_log             off;
    client_body_temp_path  temp;
    proxy_temp_path        temp;
    fastcgi_temp_path      temp;
    uwsgi_temp_path        temp;
    scgi_temp_path         temp;
    $model
    $o{http}
    server {
        listen 127.0.0.1:$S->{port};
        $o{server}
        location = /healthz { mistral_health ready; }
        location = /plain { return 200 plain; }
        $pass
        $o{locations}
    }
}
END
    $S->{workers} = $o{workers};
}


# nginx with its output into a pipe that is read to the end: whoever keeps it
# open stops us here

sub nginx {
    my $out = qx{$Nginx -p $S->{prefix}/ -c nginx.conf -e logs/error.log @_ 2>&1};
    my $rc = $?;

    $S->{out} = $out;
    diag $out if $rc != 0 && !$S->{quiet};

    return $rc;
}


# until new workers have taken over

sub reload {
    my %old = map { $_ => 1 } workers();
    local $S->{quiet} = 1;

    return 0 if nginx('-s', 'reload') != 0;

    return wait_for(sub {
        my @new = grep { !$old{$_} } workers();
        @new == $S->{workers} && workers() == @new;
    });
}


# as a daemon, or in the foreground as our child, whose pid it returns

sub run_nginx {
    my ($foreground, @before) = @_;

    if (!$foreground) {
        is(nginx(), 0, 'nginx starts');
        return 0;
    }

    my $pid = fork() // die $!;

    if ($pid == 0) {
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', "$S->{prefix}/stderr";
        no warnings 'exec';
        exec @before, $Nginx, '-p', "$S->{prefix}/", '-c', 'nginx.conf',
             '-e', 'logs/error.log';
        POSIX::_exit(127);
    }

    $S->{pids}{$pid} = 1;
    wait_for(sub { -s $S->{pid} });

    return $pid;
}


sub stop_nginx {
    my @all = (programs(), master(), children());

    signal($_[0] // 'QUIT', master());
    ok(gone(@all), 'nothing is left');
}


# processes: the program was copied, so its path is ours alone.  Nobody but
# root sees it, since they are not to be traced: others go by the log

sub programs {
    my @pids = $> == 0 ? grep { (readlink("/proc/$_/exe") // '')
                                =~ /^\Q$S->{program}\E(?: \(deleted\))?$/ }
                              map { /(\d+)$/ } glob '/proc/[0-9]*'
                       : told();

    @pids = sort { $a <=> $b } grep { alive($_) } @pids;
    return @pids;
}

sub told {
    my %pids = map { $_ => 1 }
               log_text() =~ /(?:supervisor|engine|: ok) (\d+)/g;

    for (glob '/proc/[0-9]*') {
        my ($pid) = /(\d+)$/;
        $pids{$pid} = 1 if $pids{parent($pid)};
    }

    return grep { slurp("/proc/$_/cmdline") =~ /^mistral\0engine/ } keys %pids;
}

sub engine { return status('engine_pid') }

sub supervisor { return parent(engine()) }


# kill -9 of this one; the log tells of the next

sub another_supervisor {
    my ($old) = @_;
    my $new;

    signal('KILL', $old);
    wait_for(sub { ($new) = log_since()
                            =~ /supervisor (\d+): supervisor $old died, /;
                   $new && alive($new) });

    return $new // 0;
}

sub master {
    my ($pid) = slurp($S->{pid}) =~ /(\d+)/;
    return $pid // 0;
}

# a new binary's, from when its pid file is written

sub another_master {
    my ($old) = @_;

    return wait_for(sub { -e "$S->{pid}.oldbin"
                          && master() && master() != $old }) ? master() : 0;
}

# 0 and "negative" pids are whole groups: never those

sub signal {
    my ($name, @pids) = @_;

    return kill $name, grep { ($_ // 0) > 1 } @pids;
}

sub children {
    my ($pid) = @_;
    my $of = $pid // master();

    return grep { (parent($_) // 0) == $of } map { /(\d+)$/ }
           glob '/proc/[0-9]*';
}

sub workers { return grep { cmdline($_) =~ /worker process$/ } children(@_) }

sub parent { return field($_[0], 'PPid') // 0 }

sub cmdline {
    my $c = slurp("/proc/$_[0]/cmdline");
    $c =~ s/\0+$//;
    $c =~ s/\s+$//;
    return $c;
}

sub field {
    my ($pid, $name) = @_;
    my ($value) = slurp("/proc/$pid/status") =~ /^$name:\s*(.*?)\s*$/m;
    return $value;
}

sub alive {
    my ($pid) = @_;
    my $state = field($pid, 'State');
    return defined $state && $state !~ /^Z/;
}

sub gone {
    my @pids = @_;
    return wait_for(sub { !grep { alive($_) } @pids })
           || diag(join "\n", map { "$_: " . cmdline($_) }
                              grep { alive($_) } @pids) && 0;
}

sub fds {
    my @fds = glob "/proc/$_[0]/fd/*";
    return scalar @fds;
}


# descriptors of the contract: null, pipes, eventfds, segment, log, model

sub foreign_fds {
    my ($pid) = @_;
    my @bad;

    for my $fd (map { /(\d+)$/ } glob "/proc/$pid/fd/*") {
        my $to = readlink "/proc/$pid/fd/$fd";

        next if !defined $to;
        next if $to =~ m{^(/dev/null|pipe:|anon_inode:|/memfd:mistral)};
        next if $to eq $S->{log} || $to eq "$S->{closed}/answer";
        next if $to eq $S->{program};               # of itself, for restarts

        push @bad, "$fd -> $to";
    }

    return \@bad;
}


# does this process hold the other end of our socket?

sub has_peer {
    my ($pid, $s) = @_;
    my $want = sprintf '%04X', $s->{sock}->sockport;
    my $inode;

    for (split /\n/, slurp('/proc/net/tcp')) {
        my @f = split ' ';
        $inode = $f[9] if @f > 9 && $f[2] =~ /:$want$/
                          && $f[1] =~ sprintf(':%04X$', $S->{port});
    }

    return grep { (readlink($_) // '') eq "socket:[$inode]" }
           glob "/proc/$pid/fd/*" if $inode;
    return;
}


# HTTP

sub request {
    my ($head, $body) = @_;

    my $sock = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$S->{port}",
                                     Timeout => 5) or return;
    print $sock "$head HTTP/1.1\r\nHost: t\r\nConnection: close\r\n",
                defined $body ? "Content-Type: application/json\r\n"
                                . 'Content-Length: ' . length($body) . "\r\n"
                              : '', "\r\n", $body // '';
    return $sock;
}


# (status, head, body); the status is 0 when there is none

sub fetch {
    my ($line, $body) = @_;
    my $sock = request($line, $body) or return (0, '', '');
    my ($head, $rest) = split /\r\n\r\n/, read_all($sock, 60), 2;
    my ($status) = ($head // '') =~ m{^HTTP/1\.1 (\d+)};

    return ($status // 0, $head // '', $rest // '');
}

sub get { return fetch("GET $_[0]") }

sub chat {
    my ($n, $stream, $prompt) = @_;
    my $flag = $stream ? 'true' : 'false';
    $prompt //= 'hi';
    return qq({"model":"m","max_tokens":$n,"temperature":0,"stream":$flag,)
           . qq("messages":[{"role":"user","content":"$prompt"}]});
}

sub post {
    my ($n, $prefix, $args) = @_;
    my $uri = ($prefix // '/v1') . '/chat/completions'
              . (defined $args ? "?$args" : '');

    return fetch("POST $uri", chat($n));
}

sub answer {
    my ($n) = @_;
    my ($status, $head, $body) = post($n);
    my ($content) = $body =~ /"content":\s*"([^"]*)"/;
    return $content // "$status $body";
}


# a stream is open when its first token is here

sub stream_of {
    my ($line, $body) = @_;
    my $sock = request($line, $body) or die 'no stream';
    my $s = { sock => $sock, buf => '' };

    wait_for(sub { read_some($s, 0.1);
                   $s->{buf} =~ /"(?:content|text)":"[^"]/ }, 20)
        or diag "no stream: $s->{buf}";

    return $s;
}

sub stream { return stream_of('POST /v1/chat/completions', chat($_[0], 1)) }

sub read_some {
    my ($s, $timeout) = @_;
    return 0 if !IO::Select->new($s->{sock})->can_read($timeout);
    return sysread $s->{sock}, $s->{buf}, 65536, length $s->{buf};
}


# its end, however it ended; what it said

sub finish {
    my ($s) = @_;
    my $end = time + 40;

    while (time < $end) {
        my $n = read_some($s, 1);
        last if !defined $n
                || ($n == 0 && IO::Select->new($s->{sock})->can_read(0));
    }

    close $s->{sock};

    return join '', $s->{buf} =~ /"(?:content|text)":"([^"]*)"/g;
}

sub read_all {
    my ($sock, $timeout) = @_;
    my $s = { sock => $sock, buf => '' };
    my $end = time + $timeout;

    while (time < $end) {
        my $n = read_some($s, $end - time);
        last if !$n;
    }

    close $sock;
    return $s->{buf};
}

sub status {
    my ($name) = @_;
    my ($value) = (get('/status'))[2] =~ /"$name":(\d+)/;
    return $value // -1;
}

sub ready {
    my ($timeout) = @_;
    return wait_for(sub { (get('/healthz'))[0] == 200 }, $timeout // 20);
}


# conditions, the log, files

sub wait_for {
    my ($what, $timeout) = @_;
    my $end = time + ($timeout // 20);

    while (time < $end) {
        return 1 if $what->();
        sleep 0.02;
    }

    return 0;
}

sub log_text { return slurp($S->{log}) }

sub log_since { return substr slurp($S->{log}), $S->{marked} }

sub mark { $S->{marked} = -s $S->{log} }

sub no_alerts {
    my ($name, $but) = @_;
    my @bad = grep { /\[(alert|emerg)\]/ && !($but && /$but/) }
              split /\n/, log_since();

    ok(!@bad, "no alert in the log: $name") or diag join "\n", @bad;
    mark();
}

sub slurp {
    my ($path) = @_;
    local $/;
    open my $fh, '<', $path or return '';
    return scalar(<$fh>) // '';
}

sub write_file {
    my ($path, $content) = @_;
    open my $fh, '>', $path or die "$path: $!";
    print $fh $content;
    close $fh or die "$path: $!";
}

# the last check of a test: nothing runs, nothing crashed

my $Crash = join '|', 'AddressSanitizer', 'runtime error:',
                      'worker process \d+ exited on signal 11';

sub nothing_left {
    for my $s (@Servers) {
        use_server($s);
        is_deeply([ programs() ], [], 'no program is left');
        unlike(log_text(), qr/$Crash/, 'no crash at all');
    }
}

END {
    my $status = $?;

    if ($$ == $Owner) {
        for my $s (@Servers) {
            use_server($s);
            my @masters = map { slurp($_) =~ /(\d+)/ }
                          $S->{pid}, "$S->{pid}.oldbin";

            signal('TERM', @masters);
            wait_for(sub { !grep { alive($_) } @masters }, 3);
            signal('KILL', programs(),
                   grep { waitpid($_, WNOHANG) == 0 } keys %{ $S->{pids} });
        }
    }

    $? = $status;
}


1;
