#!/usr/bin/perl

# What exists is documented and tested: every directive of the modules' tables
# stands in docs/directives.md and in a sample of conf.d, every $mistral_*
# variable in docs/variables.md, every metric in docs/metrics.md, and each is
# used by some test.

use warnings;
use strict;

use Test::More;

my $source = join '', map { slurp($_) }
             glob('ngx_http_mistral_module.c src/gateway/*.c');
my $docs = slurp('docs/directives.md');
my $variables = slurp('docs/variables.md');
my $tests = join '', map { slurp($_) }
            grep { !m{^t/docs\.t$} } glob('t/*.t t/clients/*.py');

my $samples = join '', map { slurp($_) } glob('conf.d/*.conf');

my %name = map { $_ => 1 } $source =~ /ngx_string\("(\$?mistral_\w+)"\)/g;

ok(scalar(keys %name) > 20, 'the tables were found');

for my $name (sort keys %name) {
    my $variable = $source =~ /\{ ngx_string\("\Q$name\E"\), NULL/;

    if (!$variable) {
        like($docs, qr/^## $name$/m, "$name is in docs/directives.md");
        like($tests, qr/^.*\b$name\s/m, "$name is in a test");
        like($samples, qr/^\s*$name[\s;]/m, "$name is in a sample");
        next;
    }

    # a name that ends with "_" is a prefix

    my $word = $name =~ /_$/ ? qr/\$$name\w+/ : qr/\$$name\b/;

    like($variables, qr/^\| `$word`/m, "\$$name is in docs/variables.md");
    like($tests, $word, "\$$name is in a test");
}

# and nothing is documented that does not exist

for my $word ($variables =~ /^\| `\$(mistral_\w+)` \|/mg) {
    my $name = $word =~ s/[A-Z]+$//r;

    ok($name{$name}, "\$$word of docs/variables.md exists");
}

for my $word ($docs =~ /^## (mistral_\w+)$/mg) {
    ok($name{$word}, "$word of docs/directives.md exists");
}

# where a directive may stand; mistral_task is two, a block and a line

my %word = (MAIN => 'http', SRV => 'server', LOC => 'location',
            LIF => 'if in location', LMT => 'limit_except');
my ($auth) = $source =~ /^\s+(NGX_HTTP_\w+(?:\|\w+)*\|NGX_HTTP_LMT_CONF)$/m;
my (%place, %said);

while ($source =~ /\{\ ngx_string\("(mistral_\w+)"\),\s+
                   (NGX_HTTP_[\w|\s]+),\s+ngx_/gx)
{
    my ($name, $flags) = ($1, $2);

    $flags =~ s/NGX_HTTP_MISTRAL_AUTH_CONF/$auth/;
    push @{ $place{$name} }, join ', ', map { $word{$_} // () }
                             $flags =~ /NGX_HTTP_(\w+?)_CONF/g;
}

while ($docs =~ /^## (mistral_\w+)\n(.*?)(?=^#|\z)/gms) {
    my ($name, $text) = ($1, $2);

    $said{$name} = [ $text =~ /^    Context:  (.*)$/mg ];
}

is_deeply($said{$_}, $place{$_}, "$_: where it may stand")
    for sort keys %place;

# the parameters of the model block

my @params = slurp('src/gateway/ngx_http_mistral_model.c')
             =~ /^    \{ ngx_string\("(\w+)"\), \d+, \d+,$/mg;

ok(scalar(@params) > 15, 'the table of parameters was found');

for my $name (@params) {
    like($docs, qr/^### $name$/m, "$name is in docs/directives.md");
    like($tests, qr/^\s*$name\s/m, "$name is in a test");
}

# metrics

my $shown = slurp('src/gateway/ngx_http_mistral_prometheus.c');
my $metrics = slurp('docs/metrics.md');
my @metrics = $shown =~ /\{ "(\w+)", "(?:counter|gauge|histogram)"/g;

push @metrics, slurp('src/gateway/ngx_http_mistral_series.c')
               =~ /\{ "(\w+_total)",/g;

ok(scalar(@metrics) > 20, 'the table of metrics was found');

for my $name (@metrics) {
    like($metrics, qr/`(?:mistral_|vllm:)$name`/, "$name is in metrics.md");
    like($tests, qr/\b(?:mistral_)?$name\b/, "$name is in a test");
}

# every error code of the API, and every field that a request may have

my $api = slurp('docs/api.md');
my $code = join '', map { slurp($_) } glob('src/api/*.[ch] src/gateway/*.c');
my %error;

$error{$1} = 1 while $code =~ /mst_api_error_set\(\s*[^,;]+,\s*[^,;]+,
                               \s*"(\w+)"/gx;
$error{$1} = 1 while $code =~ /\#define\ MST_FIELD_\w+\s+"(\w+)"/gx;
$error{$1} = 1 while $code =~ /^\s+\{\ \d+,\ "(\w+)",/gmx;

ok(scalar(keys %error) > 25, 'the error codes were found');

like($api, qr/`$_`/, "$_ is in docs/api.md") for sort keys %error;

my %field = map { $_ => 1 } $code =~ /mst_field_(?:number|integer|flag|string
                                      |array|object|get)\(\s*[^,()]+,
                                      \s*"(\w+)"/gx;
$field{$_} = 1 for $code =~ /^\s+\{ "(\w+)", -?[\d.]+, /gm;
delete @field{qw/ type text audio tool_calls function_call /};

ok(scalar(keys %field) > 30, 'the fields were found');

like($api, qr/`(?:\w+\.|messages\[\]\.)?$_`/, "$_ is in docs/api.md")
    for sort keys %field;

# one version

my ($version) = slurp('src/base/mst_version.h') =~ /MST_VERSION  "(.*)"/;

like(slurp('CHANGES'),
     qr/\A\s*Changes with ngx_http_mistral_module \Q$version\E\n/,
     "CHANGES begins with version $version");

done_testing();


sub slurp {
    my ($path) = @_;

    local $/;
    open my $fh, '<', $path or die "$path: $!";
    return <$fh>;
}
