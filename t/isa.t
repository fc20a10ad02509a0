#!/usr/bin/perl

# MISTRAL_ISA of nginx's environment: the engine's kernels are those of an
# older machine, and their answers the same.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use MistralLife;
use MistralTiny;

time_out(60);

my $server = server();
my $dir = checkpoint("$server->{prefix}/model", 'mistral-plain');
my @texts;

chmod 0755, $dir;
conf(main => 'error_log logs/error.log info;', model => "path $dir;");

for my $isa ('', 'avx2', 'c') {
    SKIP: {
        skip 'no AVX2 here', 4 if $isa eq 'avx2'
                                  && !grep { /^flags.*\bavx2\b/ }
                                      split /\n/, slurp('/proc/cpuinfo');

        local $ENV{MISTRAL_ISA} = $isa;

        write_file($server->{log}, '');
        unlink $server->{pid};
        run_nginx();
        ok(ready(), "\"$isa\": ready");

        my ($status, $head, $body) = fetch('POST /v1/completions', encode_json({
            prompt => [1, 2, 3], max_tokens => 8, temperature => 0 }));

        is($status, 200, 'it answers');
        push @texts, decode_json($body)->{choices}[0]{text};
        is($texts[-1], $texts[0], 'the same');
        like(log_text(), $isa ? qr/cpu: $isa, / : qr/cpu: (?:avx512|avx2|c), /,
             'and its kernels');
        stop_nginx();
    }
}

no_alerts('isa');
nothing_left();
done_testing();
