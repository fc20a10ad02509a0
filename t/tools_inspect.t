#!/usr/bin/perl

# mistral inspect from the shell: what it says of a model, every reason why
# one would not run, and the random models that it writes.

use warnings;
use strict;

use JSON::PP;
use POSIX ();
use Test::More;

use lib 't/lib';
use MistralProgram;
use MistralTiny;

inspect();
broken();
random();

done_testing();


sub inspect {
    my $r = run('inspect', $Model);
    is($r->{code}, 0, 'inspect: exit code');
    is($r->{err}, '', 'inspect: nothing on stderr');
    like($r->{out}, qr/^architecture: +llama$/m, 'inspect: architecture');
    like($r->{out}, qr/^Q4_1 +210 +106168320 +66355200$/m, 'inspect: types');
    like($r->{out}, qr/^chat template: ChatML \(SmolLM2\)$/m,
         'inspect: template');
    like($r->{out}, qr/^tool calls: +none$/m, 'inspect: calls');
    like($r->{out}, qr/^would run: +yes$/m, 'inspect: would run');

    my $j = decode_json(run('inspect', '--context', 1000, '--batch', 4,
                            '--json', $Model)->{out});
    is_deeply([@$j{qw/ runs reasons parameters tensors context /}],
              [JSON::PP::true, [], 134515008, 272, 8192], 'inspect: numbers');
    is_deeply($j->{shape}, { layers => 30, dim => 576, ff_dim => 1536,
              heads => 9, kv_heads => 3, head_dim => 64, rope_dim => 64,
              vocabulary => 49152, rope_base => 100000,
              rope_kind => 'default', rope_factor => 1, experts => 0,
              experts_per_token => 0, window => 0, windowed_layers => 0,
              tied => JSON::PP::true }, 'inspect: shape');

    my $m = $j->{memory};
    my $blocks = POSIX::ceil(1000 / $m->{block_tokens}) * 4;
    is($m->{block_bytes}, $m->{block_tokens} * 30 * 3 * 2 * 64 * 4,
       'inspect: a block is keys and values of all layers');
    is($m->{kv}, $blocks * $m->{block_bytes}, 'inspect: KV');
    is($m->{coarse_head}, 49152 / 16 * 6784, 'inspect: a copy of the head');
    is($m->{total}, $m->{kv} + $m->{weights} + $m->{coarse_head},
       'inspect: together');

    $r = run('inspect', $Model, '--context', 8193);
    is($r->{code}, 78, 'inspect, context: exit code');
    is($r->{err}, "mistral inspect: --context 8193 is over the 8192 tokens"
                  . " that the model was made for\n", 'and sentence');
    like($r->{out}, qr/^would run: +no$/m, 'and would not run');

    # every reason, not only the first: names of equal length

    my $data = slurp($Model);
    $data =~ s/tokenizer\.ggml\.model/tokenizer.ggml.xodel/ or die;
    $data =~ s/blk\.7\.ffn_up\.weight/blk.7.ffn_xx.weight/ or die;
    spew("$Dir/bad.gguf", $data);
    undef $data;

    $r = run('inspect', "$Dir/bad.gguf", '--json');
    is($r->{code}, 78, 'inspect, two faults: exit code');
    my @lines = split /\n/, $r->{err};
    is(scalar @lines, 3, 'inspect, two faults: a line for each');
    like($lines[0], qr/bad\.gguf: tensor "blk\.7\.ffn_xx\.weight" is no part/,
         'a tensor');
    like($lines[1], qr/bad\.gguf: tensor "blk\.7\.ffn_up\.weight" is missing/,
         'which is another one');
    like($lines[2], qr/bad\.gguf: .*tokenizer/, 'the tokenizer');

    $j = decode_json($r->{out});
    is_deeply($j->{reasons}, [map { s/^mistral inspect: //r } @lines],
              'the same in JSON');
    is($j->{tokenizer}{known}, JSON::PP::false, 'not known');
    is($j->{shape}{layers}, 30, 'what is known is shown');
    unlink "$Dir/bad.gguf";

    # the form of calls is what the template's text names

    for (['<tool_call>', '<tool_call> tags'],
         ['{"name": "f", "parameters": ', 'JSON with name and parameters'],
         ['', undef])
    {
        my ($text, $form) = @$_;
        my $said = $form // 'none';

        checkpoint("$Dir/calls", 'mistral-plain', template => "{{ tools }}"
                   . "{{ messages }}{{ '$text' }}");
        like(run('inspect', "$Dir/calls")->{out},
             qr/^tool calls: +\Q$said\E$/m,
             "inspect, a template with \"$text\"");
        is(decode_json(run('inspect', '--json', "$Dir/calls")->{out})
           ->{calls}, $form, 'and in JSON');
    }

    spew("$Dir/text", "no model\n");
    $r = run('inspect', "$Dir/text");
    is($r->{code}, 78, 'inspect, no GGUF: exit code');
    like($r->{err}, qr/^mistral inspect: \Q$Dir\E\/text: no GGUF file/,
         'and sentence');
    is($r->{out}, '', 'and nothing on stdout');
}


# checkpoints with more than one fault: each is said, and what can be known of
# the rest is shown

sub broken {
    my @two = map { "model.layers.$_.weight" } '0.mlp.up_proj',
                                               '1.self_attn.q_proj';
    my $far = 'model.layers.2.mlp.down_proj.weight';     # of another shard
    my $rename = sub { my $h = shift; $h->{"$_.old"} = delete $h->{$_} for
                                      grep { $h->{$_} } @two };
    my $foreign = sub { @{$_[0]}{qw/ model_type architectures /} =
                        ('foo', ['FooForCausalLM']) };
    my $cut = sub { truncate $_[0], (-s $_[0]) / 2 or die };
    my $words = qr/neither tekken\.json, tokenizer\.model nor/;
    my $foo = qr/model_type "foo" is not supported/;
    my $lies = qr/tensor "\S+" lies at bytes \d+ to \d+ of \d+/;

    my @cases = (
        ['names', { tensors => $rename },
         map({ qr/"\Q$_.old\E" is no part/ } @two),
         map({ qr/"\Q$_\E" is missing/ } @two), $words],
        ['a foreign one', { config => $foreign }, $foo, $words],
        ['a foreign one, cut off', { config => $foreign, shard => $cut },
         $foo, qr/$lies.*\(file 1 of 3\)/, qr/$lies.*\(file 2 of 3\)/,
         $words],
        ['cut off', { shard => $cut }, qr/$lies.*\(file 1 of 3\)/,
         qr/$lies.*\(file 2 of 3\)/, $words],
        ['without shards', { shard => sub { unlink $_[0] or die } },
         map({ qr/model-0000$_-of-00003\.safetensors: cannot be opened/ }
             1, 2), $words],
        ['a header that lies', { tensors => sub {
             my $h = shift;
             $h->{$_}{data_offsets}[1] += 1e9
             for grep { $h->{$_} } $two[0], $far } },
         map({ qr/"\Q$_\E" lies .* is cut off or its header is damaged/ }
             $two[0], $far), $words],
        ['shapes', { tensors => sub {
             my $h = shift;
             @$_ = ($_->[0] * 2, $_->[1] / 2)
             for map { $h->{$_} ? $h->{$_}{shape} : () } @two } },
         map({ qr/"\Q$_\E" has shape/ } @two), $words],
        ['no configuration', { config => sub { delete $_[0]{hidden_size} },
                               tensors => $rename },
         qr/hidden_size is missing/, $words],
        ['a strange configuration', { config => sub {
             my $c = shift;
             delete @$c{qw/ hidden_size vocab_size /};
             @$c{qw/ hidden_act num_hidden_layers /} = ('gelu', 0);
             $c->{rope_parameters} = { rope_type => 'longrope' } },
                                      shard => $cut },
         map({ qr/$_ is missing/ } qw/ hidden_size vocab_size rope_theta /),
         qr/hidden_act "gelu" is not supported/,
         qr/num_hidden_layers is 0, limits/,
         map({ qr/$lies.*\(file $_ of 3\)/ } 1, 2), $words],
        ['all names', { tensors => sub {
             my $h = shift;
             $h->{"x$_"} = delete $h->{$_} for grep { !/__/ } keys %$h } },
         map({ qr/"x\S+" is no part/ } 1 .. 15), qr/: \d\d reasons more$/]);

    for (@cases) {
        my ($name, $how, @want) = @$_;
        my $path = "$Dir/broken";

        checkpoint($path, 'mistral-plain', no_tokenizer => 1,
                   $how->{config} ? (config => $how->{config}) : ());

        my @shards = sort glob "$path/*.safetensors";
        tensors($_, $how->{tensors}) for $how->{tensors} ? @shards : ();
        $how->{shard}->($_) for $how->{shard} ? @shards[0, 1] : ();

        my $r = run('inspect', $path);
        my @lines = split /\n/, $r->{err};

        is($r->{code}, 78, "broken, $name: exit code");
        is(scalar @lines, scalar @want, "a line for each") or diag $r->{err};

        for my $like (@want) {
            my ($i) = grep { $lines[$_] =~ $like } 0 .. $#lines;
            ok(defined $i, "like $like") or diag $r->{err};
            splice @lines, $i, 1 if defined $i;
        }

        is_deeply([grep { !/^mistral inspect: \Q$path\E/ } @lines], [],
                  'each names the path');
        like($r->{out}, qr/^would run: +no/m, 'and would not run')
            if $r->{out} ne '';
    }
}


# the header of a shard, changed

sub tensors {
    my ($path, $change) = @_;
    my $data = slurp($path);
    my $n = unpack 'Q<', $data;
    my $h = decode_json(substr $data, 8, $n);

    $change->($h);

    my $text = encode_json($h);
    $text .= ' ' x (-length($text) % 8);
    spew($path, pack('Q<', length $text) . $text . substr $data, 8 + $n);
}


# random models of a shape: every type and format runs, the same seed makes the
# same bytes

sub random {
    my $config = 't/data/golden/tiny/mixtral-4x/config.json';
    my @all = (map({ ['gguf', $_] } qw/ bf16 f16 f32 q8_0 q4_0 q4_1 q5_0 q5_1 /),
               map({ ['safetensors', $_] } qw/ bf16 f16 f32 /));

    spew("$Dir/ids", '[1,2,3]');

    for my $case (@all) {
        my ($format, $type) = @$case;
        my $out = "$Dir/random-$format-$type";

        my $r = run('inspect', $out, '--make-random', $config, '--format',
                    $format, '--type', $type, '--json');
        is($r->{code}, 0, "random $format $type: exit code") or diag $r->{err};
        is(decode_json($r->{out})->{shape}{experts}, 4, 'and shape');

        $r = run('generate', '--model', $out, '--prompt-ids', "$Dir/ids",
                 '--max-tokens', 4, '--json');
        is($r->{code}, 0, 'it runs') or diag $r->{err};
        is(scalar @{decode_json($r->{out})->{ids}}, 4, 'and answers');
    }

    # blocks of 256 are of wider models

    my $wide = decode_json(slurp($config));
    @$wide{qw/ hidden_size intermediate_size /} = (256, 512);
    spew("$Dir/wide.json", encode_json($wide));

    for my $type (qw/ q4_k q5_k q6_k /) {
        my $out = "$Dir/random-$type";
        my $r = run('inspect', $out, '--make-random', "$Dir/wide.json",
                    '--type', $type);
        is($r->{code}, 0, "random $type: exit code") or diag $r->{err};
        like($r->{out}, qr/\b\U$type\E\b/, 'and type');

        $r = run('generate', '--model', $out, '--prompt-ids', "$Dir/ids",
                 '--max-tokens', 4, '--json');
        is($r->{code}, 0, 'it runs') or diag $r->{err};
        is(scalar @{decode_json($r->{out})->{ids}}, 4, 'and answers');
    }

    run('inspect', "$Dir/again", '--make-random', $config);
    is(slurp("$Dir/again"), slurp("$Dir/random-gguf-bf16"), 'the same again');
    run('inspect', "$Dir/again", '--make-random', $config, '--seed', 1);
    isnt(slurp("$Dir/again"), slurp("$Dir/random-gguf-bf16"),
         'another seed, another model');

    # who inspects it asks for nginx, where a model needs a tokenizer

    my $why = 'would run:     no: there is no tokenizer (token ids only)';

    for ([qr/tokenizer\.ggml\.model is missing/, 'gguf'],
         [qr/neither tekken\.json, tokenizer\.model nor/, 'safetensors'])
    {
        my ($like, $format) = @$_;
        my $out = "$Dir/random-$format-bf16";
        my $r = run('inspect', $out);
        is($r->{code}, 78, "$format without a tokenizer: exit code");
        like($r->{err}, $like, 'and sentence');
        like($r->{out}, qr/^\Q$why\E$/m, 'and verdict');

        $r = run('inspect', $out, '--json');
        is(decode_json($r->{out})->{runs}, JSON::PP::false, 'in JSON');

        $r = run('inspect', $out, '--context', 99999999);
        like($r->{out}, qr/^would run: +no$/m, 'and with another fault');

        $r = run('inspect', $out, '--make-random', $config, '--format',
                 $format);
        is($r->{code}, 0, 'just made, as asked for');
        is($r->{err}, '', 'no complaint');
        like($r->{out}, qr/^\Q$why\E$/m, 'the same verdict');
    }

    for ([1, '--make-random', "$Dir/none", qr/none: cannot be opened/],
         [2, '--make-random', $config, '--type', 'q9',
          qr/type "q9" is not written/],
         [2, '--make-random', $config, '--type', 'q3_k',
          qr/type "q3_k" is not written/],
         [2, '--make-random', $config, '--format', 'x',
          qr/format "x" is neither/],
         [1, '--make-random', 't/data/golden/tiny/rope-llama3/config.json',
          qr/not written as GGUF/],
         [2, '--make-random', $config, '--format', 'safetensors', '--type',
          'q4_0', qr/Q4_0 is not written as safetensors/])
    {
        my ($code, @args) = @$_;
        my $like = pop @args;
        my $r = run('inspect', "$Dir/x", @args);
        is($r->{code}, $code, "@args: exit code");
        like($r->{err}, $like, 'and sentence');
    }
}
