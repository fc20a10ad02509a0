#!/usr/bin/perl

# What exists is documented and tested: every directive of the module's
# tables and every $mistral_* variable stands in docs/directives.md, and every
# directive and variable is used by some test.

use warnings;
use strict;

use Test::More;

my $source = join '', map { slurp($_) }
             glob('ngx_http_mistral_module.c src/gateway/*.c');
my $docs = slurp('docs/directives.md');
my $tests = join '', map { slurp($_) }
            grep { !m{^t/docs\.t$} } glob('t/*.t t/clients/*.py');

my %name = map { $_ => 1 } $source =~ /ngx_string\("(\$?mistral_\w+)"\)/g;

ok(scalar(keys %name) > 20, 'the tables were found');

for my $name (sort keys %name) {
    my $variable = $source =~ /\{ ngx_string\("\Q$name\E"\), NULL/;
    my $word = $variable ? "\$$name" : $name;

    like($docs, qr/\Q$word\E\b/, "$word is in docs/directives.md");
    like($tests, qr/\Q$word\E\b/, "$word is in a test");
}

# the parameters of the model block

for my $name (qw/ path device dtype kv_cache context max_batch prefill_chunk
                  alias reload engine_timeout /)
{
    like($source, qr/ngx_string\("$name"\)/, "$name is in the source");
    like($docs, qr/^### $name$/m, "$name is in docs/directives.md");
    like($tests, qr/^\s*$name\s/m, "$name is in a test");
}

# metrics

my $shown = slurp('src/gateway/ngx_http_mistral_prometheus.c');
my $metrics = slurp('docs/metrics.md');
my @metrics = $shown =~ /\{ "(\w+)", "(?:counter|gauge|histogram)"/g;

ok(scalar(@metrics) > 20, 'the table of metrics was found');

for my $name (@metrics) {
    like($metrics, qr/`(?:mistral_|vllm:)$name`/, "$name is in metrics.md");
    like($tests, qr/\b$name\b/, "$name is in a test");
}

done_testing();


sub slurp {
    my ($path) = @_;

    local $/;
    open my $fh, '<', $path or die "$path: $!";
    return <$fh>;
}
