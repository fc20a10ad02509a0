#!/usr/bin/perl

# Directories of safetensors behind nginx: chats and completions, the faults
# that nginx -t tells, shards that are replaced, and the context's limit.

use warnings;
use strict;

use lib 't/lib';
use JSON::PP;
use MistralLife;
use MistralTiny;
use POSIX qw/ mkfifo /;
use Test::More;

my $S = server();
my $dir = "$S->{closed}/m";
my $Words = '"temperature":0,"model":"m"';

time_out(150);


# the answer as text, which may begin with a token that has none

sub written {
    my ($path, $text) = @_;

    my $out = qx{'$Build/mistral' generate --model '$path' --chat \\
                 --prompt '$text' --max-tokens 8 2>&1 >/dev/null};

    is($?, 0, "\"$text\": the program writes its answer") or diag $out;
}


# the same model by the program, from ids or text

sub generate {
    my ($path, @args) = @_;

    my $command = join ' ', map { "'$_'" } "$Build/mistral", 'generate',
                  '--model', $path, '--json', @args;

    return decode_json(qx{$command 2>/dev/null});
}

sub completion {
    my ($prompt, $n, $more) = @_;
    my ($status, $head, $body) = fetch('POST /v1/completions',
        '{"prompt":' . encode_json($prompt) . ",\"max_tokens\":$n,$Words"
        . ($more // '') . '}');

    return ($status, $status == 200 || $body =~ /^\{/ ? decode_json($body)
                                                      : $body);
}

# are these the log-probabilities of the last completion?

sub same {
    my ($list) = @_;
    my $got = $S->{logprobs};

    return @$got == @$list
           && !grep { abs($got->[$_] - $list->[$_]) > 1e-4 } 0 .. $#$list;
}


# nine tokens by the program

sub nine {
    my ($path, $ids) = @_;

    return generate($path, '--prompt-ids', "$S->{prefix}/$ids",
                    '--max-tokens', 9, '--ignore-eos', '--rope', 'exact');
}


# with these lines in the block; the longest prompt that is answered

sub tuned {
    my ($lines, $prompt) = @_;
    my $old = engine();

    conf(model => "path closed/m; $lines");
    ok(reload(), "a reload with \"$lines\"");
    ok(wait_for(sub { my $e = engine(); $e > 1 && $e != $old }),
       'has another engine');
    ok(ready(), 'which is ready');

    my ($st, $c) = completion($prompt, 9, ',"ignore_eos":true,"logprobs":0');
    is($st, 200, 'it answers');
    $S->{logprobs} = $c->{choices}[0]{logprobs}{token_logprobs};

    ($st, $c) = completion([ (7) x 500 ], 16);
    my ($limit) = $c->{error}{message} =~ /(\d+)/;

    return $limit;
}


# the sentence of nginx -t, which is one line

sub refused {
    my ($name, $why) = @_;

    isnt(nginx('-t'), 0, "$name: nginx -t fails");
    like($S->{out}, $why, 'and says why');
    is(scalar(() = $S->{out} =~ /\[emerg\]/g), 1, 'in one line');
}


# shards: the greedy ids are those of the reference, and nginx has them, too

checkpoint($dir, 'mistral-plain');

my $want = expected('mistral-plain');
my @ids = @{ $want->{prompt_ids} };

write_file("$S->{prefix}/ids", encode_json(\@ids));

my $tool = generate($dir, '--prompt-ids', "$S->{prefix}/ids", '--max-tokens',
                    scalar @{ $want->{greedy_ids} }, '--ignore-eos');
is_deeply($tool->{ids}, $want->{greedy_ids}, 'ids of the reference');

conf(model => "path closed/m;", workers => 2);
run_nginx();
ok(ready(), 'a directory becomes ready');

my $engine = engine();
my $n = @{ $want->{greedy_ids} };
my ($status, $j) = completion(\@ids, $n, ',"logprobs":0,"ignore_eos":true');

is($status, 200, 'a completion');
is($j->{usage}{prompt_tokens}, scalar @ids, 'tokens of the prompt');
is($j->{usage}{completion_tokens}, $n, 'tokens of the answer');

my @said = map { $_ < 256 ? chr : $_ == 256 ? 'he' : $_ == 257 ? 'll'
                 : $_ < 300 ? "t$_" : '' } @{ $tool->{ids} };
my $tokens = $j->{choices}[0]{logprobs}{tokens};
my @same = grep { $said[$_] =~ /^[ -~]+$/ } 0 .. $#said;
is_deeply([@$tokens[@same]], [@said[@same]], 'the same tokens as the program');

my @lines = ('hello', 'all the llamas');

for my $text (@lines) {
    my $ids = generate($dir, '--prompt', $text, '--max-tokens', 8);
    my $chat = generate($dir, '--prompt', $text, '--chat', '--max-tokens', 8);
    my ($st, $c) = completion($text, 8);

    written($dir, $text);

    is($c->{usage}{completion_tokens}, scalar @{ $ids->{ids} },
       "\"$text\": the same length as by the program");

    my ($head, $body);
    ($st, $head, $body) = fetch('POST /v1/chat/completions',
                                chat(8, 0, $text));
    is($st, 200, "\"$text\": a chat");
    is(decode_json($body)->{usage}{completion_tokens},
       scalar @{ $chat->{ids} }, 'of the same length as by the program');

    my $whole = decode_json($body)->{choices}[0]{message}{content};
    ($st, $head, $body) = fetch('POST /v1/chat/completions',
                                chat(8, 1, $text));
    my $parts = join '', map { $_->{choices}[0]{delta}{content} // '' }
                map { decode_json($_) } $body =~ /^data: (\{.*\})/mg;
    is($parts, $whole, 'streamed, too');
    like($body, qr/^data: \[DONE\]/m, 'to its end');
}

# unchanged files: the same engine; a shard replaced, the old one serves until
# a reload, and the new one then

ok(reload(), 'a reload');
is(status("load_percent"), 100, "all of it is loaded");
is(engine(), $engine, 'keeps the engine of unchanged files');

my ($shard) = glob "$dir/model-00002*";
my $bytes = slurp($shard);

write_file("$shard.new", $bytes);
rename "$shard.new", $shard or die $!;
is((completion('hi', 3))[0], 200, 'a shard was replaced: it answers');
kill 'KILL', $engine;
ok(wait_for(sub { my $e = engine(); $e > 1 && $e != $engine }),
   'a crashed engine is there again');
ok(ready(), 'with the shards that it had');
$engine = engine();
ok(reload(), 'a reload');
ok(wait_for(sub { my $e = engine(); $e > 1 && $e != $engine }),
   'has another engine for another shard');
ok(ready(), 'and is ready');
is((completion('hi', 3))[0], 200, 'and answers');

# the context: what fits, and one more

my $max = 128;
($status, $j) = completion([ (7) x ($max - 1) ], 5);
is($status, 200, 'a prompt that leaves room for one token');
is($j->{usage}{completion_tokens}, 1, 'gets one');
is($j->{choices}[0]{finish_reason}, 'length', 'and is told why');

for my $k ($max, $max + 1) {
    ($status, $j) = completion([ (7) x $k ], 5);
    is($status, 400, "a prompt of $k tokens");
    like($j->{error}{message}, qr/\b$max\b.*\b$k\b/, 'both numbers');
    is($j->{error}{code}, 'context_length_exceeded', 'and its code');
}

# what is not right, while the old engine goes on

$S->{quiet} = 1;

my $config = slurp("$dir/config.json");

for my $case (
    [ 'another architecture', sub { $_[0]{model_type} = 'gpt2';
                                    $_[0]{architectures} = ['GPT2LMHead'] },
      qr/m: .*gpt2/i ],
    [ 'a layer too many', sub { $_[0]{num_hidden_layers}++ },
      qr/tensor "model\.layers\.3\.\S+" is missing/ ],
    [ 'a layer too few', sub { $_[0]{num_hidden_layers}-- },
      qr/tensor "model\.layers\.2\.\S+" is no part of/ ],
    [ 'another shape', sub { $_[0]{intermediate_size} = 95 },
      qr/has shape \[64, 96, 1, 1\], expected \[64, 95, 1, 1\]/ ],
    [ 'a smaller vocabulary', sub { $_[0]{vocab_size} = 303 }, qr/shape/ ],
) {
    my ($name, $change, $why) = @$case;
    my $c = decode_json($config);

    $change->($c);
    write_file("$dir/config.json", encode_json($c));
    refused($name, $why);
}

write_file("$dir/config.json", $config);

for my $case (
    [ 'a truncated shard', sub { write_file($shard, substr $bytes, 0, -2) },
      qr/file 2 of 3/ ],
    [ 'a header that lies', sub {
        write_file($shard, $bytes =~ s/"data_offsets": ?\[0,/"data_offsets":[9,/r) },
      qr/file 2 of 3/ ],
    [ 'a shard of another size than it says', sub {
        write_file($shard, pack('Q<', 1 << 40) . substr $bytes, 8) },
      qr/file 2 of 3/ ],
    [ 'no shard', sub { unlink $shard },
      qr/model-00002\S+: cannot be opened as a regular file/ ],
    [ 'a FIFO for a shard', sub { unlink $shard;
                                  mkfifo($shard, 0644) or die $! },
      qr/model-00002\S+: cannot be opened as a regular file/ ],
) {
    my ($name, $make, $why) = @$case;

    $make->();
    refused($name, $why);
    unlink $shard;
    write_file($shard, $bytes);
}

for my $case (
    [ 'a FIFO for a tokenizer', 'tokenizer.json', undef,
      qr{m/tokenizer\.json: no regular file} ],
    [ 'a FIFO for a configuration', 'config.json', undef,
      qr{m/config\.json: cannot be opened as a regular file} ],
    [ 'a tokenizer that is none', 'tokenizer.json', '{}',
      qr/tokenizer\.json/ ],
    [ 'a tokenizer larger than the model', 'tokenizer.json',
      tokenizer_json() =~ s/"id":319/"id":320/r,
      qr/tokenizer\.json has 321 tokens, the model only 320/ ],
    [ 'a template that is unknown', 'chat_template.jinja', '{{ foo.bar(1',
      qr/template/ ],
) {
    my ($name, $file, $text, $why) = @$case;
    my $path = "$dir/$file";
    my $before = -e $path ? slurp($path) : undef;

    unlink $path;
    defined $text ? write_file($path, $text) : mkfifo($path, 0644) || die $!;
    refused($name, $why);
    unlink $path;
    write_file($path, $before) if defined $before;
}

is(nginx('-t'), 0, 'all is well again') or diag $S->{out};

if ($> == 0) {
    my $own = user();

    # a master that is not root, as whom this directory is closed

    chmod 0700, $dir;
    like(qx{su -s /bin/sh $own -c '$Build/mistral inspect $dir' 2>&1},
         qr/cannot be opened: Permission denied/, 'no permission');
}

is((completion('hi', 3))[0], 200, 'the engine went on');

# no template: completions only; the ends that a configuration names end an
# answer, beside that of the tokenizer

checkpoint($dir, 'mistral-plain', template => undef, config => sub {
    $_[0]{eos_token_id} = [2, $tool->{ids}[3]];
});
ok(reload(), 'without a template');
ok(wait_for(sub { my $e = engine(); $e > 1 && $e != $engine }),
   'another configuration, another engine');
ok(ready(), 'it is ready');
($status, $j) = completion(\@ids, 9);
is($j->{choices}[0]{finish_reason}, 'stop', 'an end of the configuration');
is($j->{usage}{completion_tokens}, 4, 'is found');
($status, undef, $j) = fetch('POST /v1/chat/completions', chat(3));
is($status, 400, 'a chat');
like($j, qr/has no chat template/, 'is refused with a sentence');

# an operator's scaling and experts are those of files that say the same

my %rope = (rope_theta => 10000, rope_type => 'default');

$want = expected('rope-yarn');
write_file("$S->{prefix}/yarn", encode_json($want->{prompt_ids}));
$tool = nine("$MistralTiny::Golden/rope-yarn", 'yarn');

checkpoint($dir, 'rope-yarn', config => sub {
    $_[0]{rope_parameters} = \%rope;
    $_[0]{max_position_embeddings} = 32;
});
is(tuned('rope_scaling yarn factor=4;', $want->{prompt_ids}), 128,
   'a context that grew');
ok(same($tool->{logprobs}), 'the numbers of the file that says the same');

# dynamic: prompts of two lengths, whose beginning the cache must not share

my @long = @{ $want->{prompt_ids} };
my %dynamic = (rope_theta => 10000, rope_type => 'dynamic', factor => 4);

checkpoint($dir, 'rope-yarn', config => sub {
    $_[0]{rope_parameters} = \%dynamic;
    $_[0]{max_position_embeddings} = 32;
});

my @dynamic;

for my $k (100, 90, 32) {
    write_file("$S->{prefix}/long", encode_json([ @long[0 .. $k - 1] ]));
    push @dynamic, nine($dir, 'long')->{logprobs};
}

checkpoint($dir, 'rope-yarn', config => sub {
    $_[0]{rope_parameters} = \%rope;
    $_[0]{max_position_embeddings} = 32;
});
is(tuned('rope_scaling dynamic factor=4;', \@long), 128,
   'a context that grew, dynamic');
ok(same(shift @dynamic), 'as the file that says the same');

for my $k (90, 32) {
    $S->{logprobs} = (completion([ @long[0 .. $k - 1] ], 9,
                                 ',"ignore_eos":true,"logprobs":0'))[1]
                     ->{choices}[0]{logprobs}{token_logprobs};
    ok(same(shift @dynamic), "a prompt of $k tokens");
}

my ($one, $two);

checkpoint($dir, 'mixtral-4x');
$two = nine($dir, 'ids');
checkpoint($dir, 'mixtral-4x', config => sub {
    $_[0]{num_experts_per_tok} = 1;
});
$one = nine($dir, 'ids');
checkpoint($dir, 'mixtral-4x');
tuned('experts_per_token 1;', \@ids);
ok(same($one->{logprobs}), 'one expert');
ok(!same($two->{logprobs}), 'which makes a difference');
tuned('', \@ids);
ok(same($two->{logprobs}), 'as the file says');

# all shards reach an engine that a worker's supervisor starts, though their
# directory is gone

rename $dir, "$dir.gone" or die $!;
$engine = engine();
ok(another_supervisor(supervisor()), 'another supervisor');
kill 'KILL', $engine;
ok(wait_for(sub { my $e = engine(); $e > 1 && $e != $engine }),
   'starts another engine');
ok(ready(), 'it is ready');
is((completion(\@ids, 3))[0], 200, 'and answers');
rename "$dir.gone", $dir or die $!;

my ($refused) = (fetch('POST /v1/completions',
                       '{"prompt":"a","num_experts_per_tok":1}'))[0];
is($refused, 400, 'a number of experts in a body is refused');

stop_nginx();
no_alerts('directories', qr/mistral_model "m"|signal 9|engine process \d+ died/);
nothing_left();
done_testing();
