#!/usr/bin/perl

# Every sample in conf.d passes "nginx -t" against the real model, so that
# samples cannot rot; the README shows conf.d/minimal.conf word for word.

use warnings;
use strict;

use lib 't/lib';
use Cwd qw/ abs_path /;
use File::Copy qw/ copy /;
use File::Path qw/ make_path remove_tree /;
use File::Temp qw/ tempdir /;
use MistralTiny;
use Test::More;

my $build = abs_path($ENV{BUILD} || 'build');
my $nginx = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';
my $prefix = tempdir(CLEANUP => 1);

make_path("$prefix/log", "$prefix/temp");     # Debian's has no logs/
symlink $build, "$prefix/modules";
symlink "$build/models", "$prefix/models";
checkpoint("$prefix/mixtral", 'mixtral-4x');
symlink abs_path($_), $prefix . s{.*(?=/)}{}r
    for grep { !/\.conf$/ } glob 'conf.d/*.*';

# a device's library stands beside the program, and nginx does not look into it

mkdir "$prefix/bin" or die $!;
link "$build/mistral", "$prefix/bin/mistral"
    or copy("$build/mistral", "$prefix/bin/mistral") or die $!;
chmod 0755, "$prefix/bin/mistral";
open my $library, '>', "$prefix/bin/libmst_cuda.so" or die $!;
close $library;

for my $sample (sort glob 'conf.d/*.conf') {
    my $conf = slurp($sample);

    $conf =~ s{\@BUILD\@(?=/mistral;)}{$prefix/bin}g if $conf =~ /device +cuda/;
    $conf =~ s/\@BUILD\@/$build/g;
    $conf =~ s/\@PORT\@/8080/g;
    $conf =~ s{\@MODEL\@}{models/SmolLM2-135M-Instruct.Q4_1.gguf}g;
    $conf =~ s{\@CHECKPOINT\@}{$prefix/mixtral}g;
    $conf =~ s{unix:/run/}{unix:$prefix/}g;
    $conf =~ s{/var/log/nginx/}{$prefix/log/}g;
    $conf =~ s{ logs/}{ $prefix/log/}g if $sample =~ /demo/;    # demo.sh's
    $conf = "pid $prefix/test.pid;\n$conf" if $conf !~ /^\s*pid\s/m;

    open my $fh, '>', "$prefix/nginx.conf" or die $!;
    print $fh $conf;
    close $fh;

    my $out = `$nginx -p $prefix/ -c $prefix/nginx.conf \\
               -e $prefix/log/error.log -t 2>&1`;

    ok($? == 0, "$sample passes nginx -t") or diag $out;

    like($conf, qr/^\s*client_max_body_size\s+8m;$/m,
         "$sample takes bodies of 8m") if $conf =~ /mistral_pass/;

    like($conf, qr/^\s*client_body_buffer_size\s+1m;$/m,
         "$sample spills no body below 1m") if $conf =~ /mistral_pass/;

    # the ready line and most warnings are below nginx's own level

    like($conf, qr/^error_log\s+\S+ notice;$/m,
         "$sample has a log of notices");
}

my ($shown) = slurp('README.md') =~ /## A first location\n\n```nginx\n(.*?)```/s;
my ($minimal) = slurp('conf.d/minimal.conf') =~ /(load_module.*)/s;

is($shown, $minimal, 'README shows conf.d/minimal.conf');

done_testing();


sub slurp {
    my ($path) = @_;

    local $/;
    open my $fh, '<', $path or die "$path: $!";
    return <$fh>;
}
