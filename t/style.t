#!/usr/bin/perl

# The habits of this tree that a program can check: who may include what,
# how names begin, how long lines, functions and files may be, what libmst.a
# must never call, and the look of C (docs: the head of each file).

use warnings;
use strict;

use File::Find;
use Test::More;

# rooms below src/ and what each may include besides itself and libc

my %may = (
    base    => [],
    shm     => [qw/ base /],
    api     => [qw/ base /],
    file    => [qw/ base /],
    text    => [qw/ base file /],
    backend => [qw/ base file kernels /],
    model   => [qw/ base file text backend /],
    engine  => [qw/ base file text backend model shm /],
    gateway => [qw/ base shm text api file model\/mst_check.h /],
    tools   => [qw/ base shm api file text backend model engine /],
    kernels => [qw/ base /],
);

# a failure here is a fault of the host or of the caller, never of a room

my $forbidden = qr/(?<![\w>.])(v?f?printf|puts|exit|_exit|abort|getenv
                              |secure_getenv|assert)\s*\(/x;

my ($max_line, $max_func, $max_file, $max_params) = (80, 100, 1000, 7);

my %long = map { $_ => 1 } ();          # functions let off, with a reason

my @files;

find({ wanted => sub { push @files, $_ if /\.(c|h|cu|cuh)$/ }, no_chdir => 1 },
     grep { -d } qw/ src kernels t /);

check($_) for 'ngx_http_mistral_module.c', sort @files;

done_testing();


sub check {
    my ($path) = @_;
    my ($room) = $path =~ m{^(?:src/)?(\w+)/};
    my ($file) = $path =~ m{([^/]+)$};
    my $gateway = !defined $room || $room eq 'gateway';

    open my $fh, '<', $path or die "$path: $!";
    my @raw = <$fh>;
    chomp @raw;

    my @code = code(@raw);
    my @bad = lines(\@raw, \@code);

    # a test may be as long as its tables

    push @bad, sizes($path, \@raw, \@code) if $path !~ m{^t/};

    if ($path =~ m{^src/}) {
        my $want = $gateway ? qr/^ngx_http_mistral/
                 : $room eq 'tools' ? qr/^mistral/ : qr/^mst_/;

        push @bad, 'the name of the file' if $file !~ $want
                                             && $file !~ /\.map$/;
        push @bad, "room $room is not known" if !$may{$room};
        push @bad, includes($room, cuda($file), @raw), headless(@raw);
        push @bad, 'no unit test of the same name' if !tested($room, $file);
        push @bad, names($gateway, $room, @code);
        push @bad, 'no guard' if $file =~ /\.h$/ && !guarded(@raw);

    } elsif (!defined $room) {
        push @bad, names(1, 'gateway', @code);
    }

    push @bad, calls(@code)
        if $path =~ m{^src/} && $room !~ /^(?:gateway|tools)$/;
    push @bad, nginx_types(@code)
        if $path =~ m{^(?:src|kernels)/} && !$gateway;
    push @bad, braces(@code);
    push @bad, seeds(@code) if $path =~ m{^t/} && $file ne 'seed.h';

    ok(!@bad, $path) or diag join "\n", @bad;
}


# the lines without comments and with empty strings, so that words in them
# are no code

sub code {
    my $text = join "\n", @_;

    $text =~ s{
        (/\*.*?\*/) | "((?:[^"\\\n]|\\.)*)" | '((?:[^'\\\n]|\\.)*)'
    }{
        defined $1 ? $1 =~ tr/\n//cdr : defined $2 ? '""' : "' '"
    }gesx;

    return split /\n/, $text, -1;
}


sub lines {
    my ($raw, $code) = @_;
    my @bad;

    for my $i (0 .. $#$raw) {
        my $at = 'line ' . ($i + 1);

        push @bad, "$at: over $max_line columns"
            if length(decoded($raw->[$i])) > $max_line;
        push @bad, "$at: tab" if $raw->[$i] =~ /\t/;
        push @bad, "$at: space at end" if $raw->[$i] =~ /\s$/;
        push @bad, "$at: // comment" if $code->[$i] =~ m{//};
        push @bad, "$at: an empty line before it"
            if $i > 0 && $raw->[$i] =~ /^\s*\};?$/ && $raw->[$i - 1] eq '';
        push @bad, "$at: a third empty line"
            if $i > 1 && !grep { $_ ne '' } @$raw[$i - 2 .. $i];
    }

    push @bad, 'an empty line at the end' if @$raw && $raw->[-1] eq '';

    return @bad;
}


sub decoded {
    my ($line) = @_;

    utf8::decode($line);

    return $line;
}


# a definition is a brace in the first column under a name with parameters

sub sizes {
    my ($path, $raw, $code) = @_;
    my @bad;

    push @bad, scalar(@$raw) . " lines, at most $max_file"
        if @$raw > $max_file;

    for my $i (0 .. $#$code) {

        if ($code->[$i] eq '{') {
            my $from = $i;
            $from-- while $from > 0 && $code->[$from - 1] =~ /\S/
                          && $raw->[$from - 1] !~ m{\*/$};

            my $head = join ' ', @$code[$from .. $i - 1];
            my ($name) = $head =~ /(\w+)\s*\(/ or next;

            my $to = $i;
            $to++ while $to < $#$code && $code->[$to] ne '}';

            my $size = $to - $i + 1;
            push @bad, "$name(): $size lines, at most $max_func"
                if $size > $max_func && !$long{$name};

            push @bad, "$name(): more than $max_params parameters"
                if $head =~ /\((.*)\)/s && commas($1) >= $max_params;

            push @bad, "$name(): its type belongs on a line of its own"
                if !grep { /^\Q$name\E\(/ } @$code[$from .. $i - 1];
        }

        push @bad, 'line ' . ($i + 1) . ': a brace belongs on its own line'
            if $code->[$i] =~ /^\w[^={]*\)\s*\{$/;

        # two empty lines follow a function, unless the file or an #if ends

        if ($raw->[$i] eq '}' && $path =~ /\.c$/) {
            my $next = $i + 1;
            $next++ while $next <= $#$raw && $raw->[$next] eq '';

            push @bad, 'line ' . ($i + 1) . ': two empty lines follow'
                if $next <= $#$raw && $next - $i != 3
                   && $raw->[$next] !~ /^#/;
        }
    }

    return @bad;
}


# commas outside of inner parentheses

sub commas {
    my ($list) = @_;

    1 while $list =~ s/\([^()]*\)//g;

    return scalar(() = $list =~ /,/g);
}


sub includes {
    my ($room, $cuda, @lines) = @_;
    my @bad;

    for my $line (@lines) {

        if ($line =~ /^\s*#\s*include\s+"([^"]+)"/) {
            my $what = $1;
            my ($from) = $what =~ m{^(\w+)/};

            if (!defined $from) {
                push @bad, "\"$what\" is not written from src/";

            } elsif ($from ne $room
                     && !grep { $_ eq $from || $_ eq $what }
                             @{ $may{$room} || [] })
            {
                push @bad, "$room must not include $what";
            }

        } elsif ($line =~ /^\s*#\s*include\s+<((?:cuda|cublas|nccl|nvml)[^>]*)>/
                 && !$cuda)
        {
            push @bad, "$1 outside of the CUDA library";

        } elsif ($line =~ /^\s*#\s*include\s+<(ngx_[^>]*)>/
                 && $room ne 'gateway')
        {
            push @bad, "$1 outside of the gateway";
        }
    }

    return @bad;
}


# what libmst_cuda.so is made of: its tests run on a device (t/cuda)

sub cuda {
    return $_[0] =~ /^mst_cuda/;
}


sub headless {
    my $first = join "\n", @_[0 .. ($#_ < 3 ? $#_ : 3)];

    return $first =~ m{^\n/\*\n \* \S}
           ? () : 'no comment at the head that says what this is';
}


sub guarded {
    my $text = join "\n", @_;

    # files that stand for one another (mst_vec_*.h) share a guard

    return $text =~ /^#ifndef (\w+_H)\n#define \1$/m;
}


sub tested {
    my ($room, $file) = @_;
    my ($name) = $file =~ /^(\w+)\.c$/ or return 1;

    return $room =~ /^(?:gateway|tools)$/ || cuda($file)
           || -f "t/unit/${name}_test.c";
}


# every function, static ones too, begins with the half that it belongs to

sub names {
    my ($gateway, $room, @code) = @_;
    my $want = $gateway ? 'ngx_http_mistral_'
             : $room eq 'tools' ? 'm(?:st|istral)_' : 'mst_';
    my @bad;

    for my $i (1 .. $#code) {
        push @bad, "$1() does not begin with $want"
            if $code[$i] =~ /^(\w+)\(/ && $1 !~ /^$want/
               && $1 ne '_Static_assert'
               && !($room eq 'tools' && $1 eq 'main');
    }

    return @bad;
}


sub calls {
    my @bad;

    for my $i (0 .. $#_) {
        push @bad, 'line ' . ($i + 1) . ": $1()"
            if $_[$i] =~ $forbidden && $_[$i] !~ /__attribute__/;
    }

    return @bad;
}


sub nginx_types {
    return map { 'line ' . ($_ + 1) . ': nginx outside of the gateway' }
           grep { $_[$_] =~ /\b(?:ngx|NGX)_\w+/ } 0 .. $#_;
}


# a random test is the same each time, unless it is told otherwise

sub seeds {
    return map { 'line ' . ($_ + 1) . ': the seed of a test is test_seed()' }
           grep { $_[$_] =~ /\btime\(NULL\)|(?:seed|x) = .*mst_time_ns/ } 0 .. $#_;
}


# if, else, for and while have braces; "} while (...);" ends a do

sub braces {
    my @bad;
    my $text = join "\n", map { /^\s*#/ ? '' : s/\s*\\$//r } @_;
    my $nested;
    $nested = qr/\((?:[^()]++|(??{ $nested }))*\)/;

    while ($text =~ /^([ \t]+)(?:\}\ else\ )?(if|for|while)\ ?($nested)(\s*)(.)
                    /gmx)
    {
        next if $5 eq '{';
        push @bad, 'line ' . (1 + (substr($text, 0, $-[5]) =~ tr/\n//))
                   . ": $2 without braces";
    }

    while ($text =~ /\belse\b(\s*)(\{|if\b|.)/g) {
        next if $2 eq '{' || $2 eq 'if';
        push @bad, 'line ' . (1 + (substr($text, 0, $-[2]) =~ tr/\n//))
                   . ': else without braces';
    }

    return @bad;
}
