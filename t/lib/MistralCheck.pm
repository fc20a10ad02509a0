package MistralCheck;

# What "nginx -t" says of a configuration: passes(), fails(), warns().

use warnings;
use strict;

use base 'Exporter';

use Cwd qw/ abs_path /;
use File::Temp qw/ tempdir /;
use Test::More;

our @EXPORT = qw/ $build $prefix check fails passes said warns write_file /;

our $build = abs_path($ENV{BUILD} || 'build');
our $prefix = tempdir(CLEANUP => 1);

my $nginx = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';
my $said;

chmod 0755, $prefix;
mkdir "$prefix/$_" for qw/ logs temp /;


sub passes {
    my ($http, $name) = @_;

    my ($rc, $out) = check($http);
    ok($rc == 0, $name) or diag $out;
}


# refused, with exactly one complaint, which contains the text

sub fails {
    my ($http, $text, $modules) = @_;

    my ($rc, $out) = check($http, $modules);
    $said = $out;
    my @emerg = grep { /\[emerg\]/ } split /\n/, $out;

    ok($rc != 0 && @emerg == 1 && index($emerg[0], $text) >= 0,
       $text) or diag "$http\nrc $rc\n$out";
}


# by the last that was to fail

sub said {
    return $said;
}


# passes, with exactly one warning, which contains the text

sub warns {
    my ($http, $text) = @_;

    my ($rc, $out) = check($http);
    my @warn = grep { /\[warn\]/ } split /\n/, $out;

    ok($rc == 0 && @warn == 1 && index($warn[0], $text) >= 0, $text)
        or diag $out;
}


sub check {
    my ($http, $modules) = @_;

    $modules //= $build;
    write_file("$prefix/nginx.conf", <<"END");
load_module $modules/ngx_http_mistral_module.so;
error_log   logs/error.log;
pid         $prefix/nginx.pid;
events      { }
http {
    $http
}
END

    my $out = `$nginx -p $prefix/ -c nginx.conf -e logs/error.log -t 2>&1`;

    return ($?, $out);
}


sub write_file {
    my ($path, $text) = @_;

    open my $fh, '>', $path or die "$path: $!";
    print $fh $text;
    close $fh;
}

1;
