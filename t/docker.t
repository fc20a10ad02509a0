#!/usr/bin/perl

# docker/ as far as it can be checked without a daemon: the Dockerfiles' lines
# and files, the packages that they install, and the container's start, run
# here with the build's own module.

use warnings;
use strict;

use lib 't/lib';
use Cwd qw/ abs_path /;
use MistralLife;
use POSIX ();
use Test::More;

time_out(120);

my $S = server();
my $run = "$S->{prefix}/run";
my $entry = 'docker/entrypoint.sh';
my $child;

# Dockerfiles: instructions, files, packages

my %known = map { $_ => 1 } qw/ ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM
                                HEALTHCHECK RUN STOPSIGNAL VOLUME WORKDIR /;

# but those of a build with sanitizers, which is no image's

my @needed = grep { !/^lib(?:asan|ubsan|tsan)\d/ }
             libraries("$Build/ngx_http_mistral_module.so",
                       "$Build/mistral");

cmp_ok(scalar @needed, '>=', 3, 'libraries and their packages');

for my $name (qw/ Dockerfile Dockerfile.cuda /) {
    my $text = slurp("docker/$name");
    my (@stages, $stage);

    $text =~ s/^#.*\n//gm;
    $text =~ s/\\\n\s*/ /g;

    for my $line (grep { /\S/ } split /\n/, $text) {
        my ($word, $rest) = $line =~ /^([A-Z]+) +(\S.*)$/;

        ok($word && $known{$word}, "$name: " . substr $line, 0, 50);
        next if !$word;

        if ($word eq 'FROM') {
            $stage = { from => $rest };
            push @stages, $stage;

        } elsif ($stage) {
            push @{$stage->{$word}}, $rest;
        }
    }

    is(scalar @stages, 2, "$name: one stage builds, one runs");

    my ($build, $final) = @stages;

    like($build->{from}, qr/ AS build$/, "$name: the first is \"build\"");

    # what is copied is there, and all that the build needs is copied

    for my $copy (map { @{$_->{COPY}} } @stages) {
        my @files = split ' ', $copy;
        my $to = pop @files;

        next if $files[0] eq '--from=build';
        ok(-e $_, "$name: $_ exists") for @files;
    }

    my $copied = join ' ', @{$build->{COPY}};

    for my $need (qw/ config config.make Makefile src /,
                  'ngx_http_mistral_module.c')
    {
        like($copied, qr/(?:^| )\Q$need\E /, "$name: $need is copied");
    }

    # packages: the build's are the Makefile's, the run's bring every library

    my ($makefile) = slurp('Makefile') =~ /^PACKAGES  = ((?:.*\\\n)*.*)/m;
    my @wanted = packages($build);

    for my $package (grep { !/^libc6-dev$/ } @wanted) {
        like($makefile, qr/(?:^|\s)\Q$package\E(?:\s|$)/,
             "$name: $package is one of the Makefile's");
    }

    my %installed = map { $_ => 1 } packages($final), qw/ libc6 libgcc-s1 /;

    $installed{$_} = 1 for depends('nginx');

    for my $package (@needed) {
        ok($installed{$package}, "$name: $package is installed");
    }

    # its words

    is_deeply($final->{ENTRYPOINT}, ['["entrypoint.sh"]'], "$name: entry");
    is_deeply($final->{STOPSIGNAL}, ['SIGQUIT'], "$name: a graceful stop");
    is_deeply($final->{EXPOSE}, [join ' ', slurp($entry)
                                 =~ /^(?:LISTEN|METRICS)=.*:-(\d+)\}$/mg],
              "$name: the ports are entrypoint.sh's");

    my ($program) = $final->{HEALTHCHECK}[0] =~ m{CMD \["(/[^"]+)"};
    my ($modules) = slurp('Makefile') =~ /^MODULES_DIR \?= (.*)$/m;

    is($program, "$modules/mistral", "$name: the health check's program");
}

# what is copied is enough for make; the context has it

my $copy = "$S->{prefix}/copy";
my $ignore = slurp('.dockerignore');

mkdir $copy;

for my $file (qw/ config config.make Makefile src docker /,
              'ngx_http_mistral_module.c')
{
    like($ignore, qr/^!\Q$file\E$/m, "the context has $file");
    system "cp -r '$file' '$copy/'" if $file ne 'docker';
}

my $plan = `make -n -C '$copy' BUILD=build build/mistral 2>&1`;

is($?, 0, 'make has all that it asks for') or diag $plan;

# what the image takes from the build

my $out = "$S->{prefix}/out";

is(system("make -s -o all install BUILD='$Build' DESTDIR='$out'"), 0,
   'make install into a directory');
ok(-x "$out/usr/lib/nginx/modules/mistral", 'has the program');
ok(-e "$out/usr/lib/nginx/modules/ngx_http_mistral_module.so",
   'has the module');

# the start: a model is found, or it is said why not

is(system('sh', '-n', $entry), 0, 'entrypoint.sh is a script');
ok(-x $entry, 'and executable');

SKIP: {
    my ($tool) = grep { -x } map { "$_/shellcheck" } split /:/, $ENV{PATH};

    skip 'no shellcheck', 1 if !$tool;
    is(`$tool $entry`, '', 'shellcheck has nothing to say');
}

my $models = "$S->{prefix}/models";

mkdir $models;

like(start_says(), qr/no model in \Q$models\E/, 'no model');
write_file("$models/a.gguf", 'no model');
like(start_says(), qr/\[emerg\].*a\.gguf/, 'one that is none');
write_file("$models/b.gguf", 'no model');
like(start_says(), qr/several models in \Q$models\E, set MODEL/, 'two');
like(start_says(MODEL => 'null:; } evil {'), qr/MODEL=.*no.*plain value/s,
     'no directives in a setting');
like(start_says(MODEL => 'null:', QUEUE => "1\n}"), qr/not a plain value/,
     'no lines');

is(`$entry echo another command`, "another command\n", 'another command');

# nginx in the foreground, as a container has it

my $metrics = free_port();

$child = fork() // die $!;

if ($child == 0) {
    environment(MODEL => 'null:rate=100', NAME => 'demo', QUEUE => '7',
                LISTEN => "127.0.0.1:$S->{port}",
                METRICS => "127.0.0.1:$metrics", WORKERS => 2);
    open STDOUT, '>', "$S->{prefix}/stdout";
    open STDERR, '>', "$S->{prefix}/stderr";
    { no warnings 'exec'; exec $entry, 'nginx'; }
    POSIX::_exit(127);
}

ok(ready(), 'the health check is 200')
    or diag slurp("$S->{prefix}/stderr");

my ($code, undef, $body) = fetch('POST /v1/completions',
                                 '{"prompt":"x","max_tokens":3}');

is($code, 200, 'it answers');
like($body, qr/"model":"demo".*"text":"The"/, 'by the name that was set');
is((get('/metrics'))[0], 404, 'metrics have a port of their own');

{
    local $S->{port} = $metrics;
    like((get('/metrics'))[2], qr/^mistral_engine_ready\{model="demo"\} 1$/m,
         'where they are');
}

ok(wait_for(sub { slurp("$S->{prefix}/stdout")
                  =~ /"POST \/v1\/completions HTTP\/1.1" 200 .*completion=3/ }),
   'the access log is the container\'s');
like(slurp("$S->{prefix}/stderr"), qr/\[notice\]/, 'the error log, too');

my $stream = stream_of('POST /v1/completions',
                       '{"prompt":"x","max_tokens":60,"stream":true}');

kill 'QUIT', $child;                           # docker stop
finish($stream);
like($stream->{buf}, qr/\[DONE\]/, 'a stop lets streams end');
waitpid $child, 0;
is($?, 0, 'and is no failure');
undef $child;

ok(wait_for(sub { !programs() }), 'its engine goes with it');
nothing_left();
done_testing();


sub packages {
    my ($stage) = @_;
    my ($list) = map { /apt-get install -y\s+--no-install-recommends\s+(.*?) &&/ }
                 @{$stage->{RUN}};

    return grep { /^[a-z]/ } split ' ', $list // '';
}


# packages of the shared libraries that these files ask for by themselves

sub libraries {
    my (%path, %package);

    for my $file (@_) {
        my $paths = `ldd '$file'`;

        for my $name (`readelf -d '$file'` =~ /\(NEEDED\).*\[(.*?)\]/g) {
            my ($path) = $paths =~ /^\s*\Q$name\E => (\S+)/m or next;

            # Debian knows it by its place before or after /usr was merged

            $path{$_} = 1 for map { ($_, "/usr$_", s{^/usr}{}r) } $path,
                              abs_path($path);
        }
    }

    my $files = join ' ', map { "'$_'" } sort keys %path;

    $package{$_} = 1 for `dpkg -S $files 2>/dev/null`
                         =~ /^([a-z0-9.+-]+):\S* /mg;

    return sort keys %package;
}

sub depends {
    my ($package) = @_;

    return `dpkg-query -W -f '\${Depends}' $package` =~ /([a-z0-9.+-]+) ?(?:\(|,|$)/g;
}

sub environment {
    my %o = (MODELS => $models, MODULE => "$S->{closed}/module.so",
             RUN => $run, CONF => 'docker/nginx.conf', NGINX => $Nginx,
             DEVICE => 'cpu', @_);

    delete @ENV{qw/ MODEL NAME QUEUE LISTEN METRICS WORKERS /};
    @ENV{keys %o} = values %o;
}


# what it says when it does not start

sub start_says {
    my %o = @_;
    my $pid = fork() // die $!;

    if ($pid == 0) {
        environment(LISTEN => "127.0.0.1:$S->{port}",
                    METRICS => "127.0.0.1:$S->{port}", %o);
        open STDOUT, '>', "$S->{prefix}/said";
        open STDERR, '>&', \*STDOUT;
        { no warnings 'exec'; exec $entry; }
        POSIX::_exit(127);
    }

    waitpid $pid, 0;
    isnt($?, 0, 'it does not start');

    return slurp("$S->{prefix}/said");
}

END {
    my $status = $?;

    if ($child) {
        kill 'TERM', $child;
        waitpid $child, 0;
    }

    $? = $status;
}
