#!/usr/bin/perl

# A checkpoint with weights that are no numbers: whoever meets them gets an
# error that can be seen, before the header or in the stream; all others, in
# the same steps and later in the same blocks, the answers of every day.  For
# the breaker it is a fault of the engine, which goes on.

use warnings;
use strict;

use JSON::PP;
use Test::More;

use MistralLife;
use MistralTiny;

time_out(120);

my $server = server();
my $dir = checkpoint("$server->{prefix}/model", 'mistral-plain');

chmod 0755, $dir;

conf(workers => 2, model => "path $dir;", server => 'mistral_breaker off;',
     http => "mistral_model n { path $dir; max_batch 4; }",
     locations => 'location /n/ { mistral_pass n; mistral_breaker errors=3 '
                  . 'window=10m open=2s probes=1; }'
                  . 'location = /metrics { mistral_status prometheus; }');

# all is well: answers, and a token that comes late in one and in no other

my (@good, @want, $late, $token);

run_nginx();
ok(ready(), 'ready');
answers();
stop_nginx();

my ($bad) = map { 0 + $_ } $token =~ /(\d+)/;

poison($dir, 'model.embed_tokens.weight', $bad);
unlink $server->{pid};
run_nginx();
ok(ready(), 'nobody has met the bad weights yet');

# before the first token there is a status, of a stream, too

for my $stream (JSON::PP::false, JSON::PP::true) {
    my ($status, $head, $body) =
        fetch(@{ completion('v1', [1, 2, $bad], stream => $stream) });

    is($status, 500, 'a prompt that holds one');
    like($body, qr/^\{"error":\{"message":"The model's numbers are not finite [^}]*"type":"server_error",[^}]*"code":"numeric_error"\}\}$/,
         'says so');
}

# somewhere in an answer; where nothing of it was sent yet, it has a status

my $got;

ok(wait_for(sub {
    $got = read_all(request(@$late), 20);
    $got =~ m{^HTTP/1\.1 200 } || $got !~ m{^HTTP/1\.1 500 .*numeric_error}s;
}), 'a stream that has begun');
like($got, qr/^HTTP.*"text":"(?!$token").*"text":"[^"]*$token".*data: \{"error":\{[^}]*"code":"numeric_error"\}\}\n\n\r\n\z/s,
     'ends with an error');
unlike($got, qr/\[DONE\]|"finish_reason":"/, 'and with no end');

my $whole = decode_json($late->[1]);

delete $whole->{$_} for qw/ stream stream_options /;
is((fetch($late->[0], encode_json($whole)))[0], 500,
   'an answer as a whole has a status');

# others in the same steps, and in blocks that had the numbers

for my $round (1 .. 8) {
    my @all = map { request(@$_) } @good[0 .. 2], $late, @good[3 .. 5],
                                   completion('v1', [(1) x 40, $bad]);
    my @said = map { read_all($_, 20) } @all;
    my @bad = splice @said, 7, 1;

    push @bad, splice @said, 3, 1;

    same($_, $said[$_], $round) for 0 .. 5;
    like($_, qr/"code":"numeric_error"/, "round $round: an error") for @bad;
}

ok(wait_for(sub { status('running') == 0 && status('kv_blocks_used') == 0 }),
   'nobody runs, and nobody holds a block');

# the breaker

my $pid = engine();

for (1 .. 3) {
    is((fetch(@{ completion('n', [$bad]) }))[0], 500, 'a fault');
}

my ($status, $head, $body) = fetch(@{ completion('n', [1]) });

is($status, 503, 'and the breaker is open');
like($head, qr/^X-Mistral-Shed-Reason: breaker\r$/m, 'as it says');
like((get('/metrics'))[2], qr/^mistral_breaker_state\{model="n"\} 2$/m,
     'in the metrics');
like((fetch(@{ $good[0] }))[2], qr/\[DONE\]/, 'another model does not mind');
ok(wait_for(sub { (fetch(@{ completion('n', [1]) }))[0] == 200 }),
   'a good answer');
like((get('/metrics'))[2], qr/^mistral_breaker_state\{model="n"\} 0$/m,
     'closes it');
is(engine(), $pid, 'the engine is the same as ever');
like(log_text(), qr/\[error\].*failed in the engine of model "m" after \d+ tokens: numeric/,
     'what happened is in the log');

no_alerts('numbers');
stop_nginx();
nothing_left();
done_testing();


# (line, body) of 100 tokens for these ids

sub completion {
    my ($where, $ids, %o) = @_;

    $o{stream} //= JSON::PP::true;

    $o{stream_options} = { include_usage => JSON::PP::true } if $o{stream};

    return ["POST /$where/completions",
            encode_json({ prompt => $ids, max_tokens => 100, temperature => 0,
                          ignore_eos => JSON::PP::true,
                          %o })];
}


# the last new token of the first answers that no other one has

sub answers {
    for my $k (1 .. 40) {
        my $c = completion('v1', [map { $_ * $k % 250 + 1 } 1 .. 9],
                           logprobs => 0);
        my $said = read_all(request(@$c), 20);

        push @good, completion('v1', [map { $_ * $k % 250 + 1 } 1 .. 9]);
        push @want, text_of($said);
    }

    for my $i (0 .. $#want) {
        my $others = join ' ', @want[grep { $_ != $i } 0 .. 6];

        for my $t (reverse $want[$i] =~ /t2[5-9]\d/g) {
            next if $others =~ /$t/ || index($want[$i], $t) < 50;
            ($token, $late) = ($t, $good[$i]);
            splice @good, $i, 1;
            splice @want, $i, 1;
            splice @good, 6;
            splice @want, 6;
            cmp_ok(length $_, '>=', 90, 'an answer') for @want;
            return;
        }
    }

    die 'no such token';
}


sub same {
    my ($i, $answer, $round) = @_;

    is(text_of($answer), $want[$i],
       "round $round: answer $i is as it was");
    like($answer, qr/\[DONE\]/, 'and whole');
}


# chunks are as the tokens came; the text is not

sub text_of { return join '', $_[0] =~ /"text":"((?:[^"\\]|\\.)*)"/g }


# this row of a tensor of bf16 becomes NaN

sub poison {
    my ($where, $name, $row) = @_;

    for my $path (glob "$where/*.safetensors") {
        open my $f, '+<:raw', $path or die "$path: $!";
        read $f, my $n, 8;
        $n = unpack 'Q<', $n;
        read $f, my ($head), $n;

        my $t = decode_json($head)->{$name} or next;
        my $size = $t->{shape}[1] * 2;

        die $t->{dtype} if $t->{dtype} ne 'BF16';

        seek $f, 8 + $n + $t->{data_offsets}[0] + $row * $size, 0;
        print $f "\xc0\x7f" x $t->{shape}[1] or die $!;
        close $f or die $!;
        return;
    }

    die "no tensor $name";
}
