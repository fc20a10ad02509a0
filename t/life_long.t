#!/usr/bin/perl

# A prompt of 128k tokens (32k under sanitizers, which take 400 s for more)
# through nginx: computed in chunks, up to the last token of the context and
# not one more; with a sliding window the blocks in use stay as few as the
# window needs.

use warnings;
use strict;

use lib 't/lib';
use IO::Select;
use JSON::PP;
use List::Util qw/ max /;
use MistralLife;
use MistralTiny;
use Test::More;

my $Context = sanitized() ? 32768 : 131072;
my $Window = 2048;
my $Chunk = 512;

my $S = server();
my $dir = "$S->{closed}/m";

time_out(400);


# the answer, while the blocks in use are watched

sub long {
    my ($n, $max) = @_;
    my $body = '{"model":"m","temperature":0,"ignore_eos":true,"logprobs":0,'
               . "\"max_tokens\":$max,\"prompt\":"
               . encode_json([ map { $_ * 7 % 300 } 1 .. $n ]) . '}';
    my $s = { sock => request('POST /v1/completions', $body), buf => '' };

    $S->{used} = 0;

    while (1) {
        my $got = read_some($s, 0.05);

        last if $got || !defined $got;
        last if IO::Select->new($s->{sock})->can_read(0);
        $S->{used} = max($S->{used}, status('kv_blocks_used'));
    }

    $s->{buf} .= read_all($s->{sock}, 60);

    my ($status, $json) = $s->{buf} =~ m{^HTTP/1\.1 (\d+).*?\r\n\r\n(.*)}s;

    return ($status, decode_json($json));
}


random_checkpoint("$Build/mistral", $dir, 'mistral-window', config => sub {
    my ($c) = @_;

    $c->{num_hidden_layers} = 1;
    $c->{num_attention_heads} = $c->{num_key_value_heads} = 2;
    $c->{max_position_embeddings} = $Context;
    $c->{sliding_window} = $Window;
    delete $c->{layer_types};
});

conf(model => "path closed/m; prefill_chunk $Chunk; max_batch 2;"
              . ' kv_cache f32 size=256m;',
     server => 'client_max_body_size 8m; mistral_queue 9 timeout=300s;');
run_nginx();
ok(ready(), 'ready');

my ($status, $j) = long($Context - 3, 10);

is($status, 200, 'a prompt that leaves three tokens');
is($j->{usage}{prompt_tokens}, $Context - 3, 'all of it is computed');
is($j->{usage}{completion_tokens}, 3, 'three are answered');
is($j->{choices}[0]{finish_reason}, 'length', 'the context ends the answer');

my $block = status('kv_block_tokens');
cmp_ok($S->{used}, '>', 0, 'blocks were in use');
cmp_ok($S->{used} * $block, '<=', $Window + $Chunk + 3 * $block,
       'blocks that the window left were given back');

# the same numbers as by the program, which has other chunks

write_file("$S->{prefix}/ids", encode_json([ map { $_ * 7 % 300 }
                                             1 .. $Context - 3 ]));

my $tool = decode_json(qx{'$Build/mistral' generate --model '$dir' --json \\
    --prompt-ids '$S->{prefix}/ids' --max-tokens 3 --ignore-eos 2>/dev/null});
my $logprobs = $j->{choices}[0]{logprobs}{token_logprobs};

is(scalar(grep { abs($logprobs->[$_] - $tool->{logprobs}[$_]) > 1e-5 }
          0 .. 2), 0, 'the numbers of the program');

for my $n ($Context, $Context + 1) {
    ($status, $j) = long($n, 1);
    is($status, 400, "a prompt of $n tokens");
    is($j->{error}{code}, 'context_length_exceeded', 'is too long');
    like($j->{error}{message}, qr/\b$Context\b.*\b$n\b/, 'by both numbers');
}

stop_nginx();
no_alerts('a long prompt');
nothing_left();
done_testing();
