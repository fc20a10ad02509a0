#!/usr/bin/perl

# mistral bench and metrics from the shell: sentences, exit codes, what they
# count and what they print.  The servers are a few lines of Perl that answer
# as told, and nginx with the null model.

use warnings;
use strict;

use IO::Socket::INET;
use JSON::PP;
use Test::More;
use Time::HiRes qw/ time sleep /;

use lib 't/lib';
use MistralProgram;
use MistralServer;

my $nginx;

$SIG{PIPE} = 'IGNORE';

usage();
counts();
failures();
connections();
profiles();
against_nginx();
engine();
kernels();

done_testing();


# one sentence, nothing on stdout, exit code 2

sub usage {
    my $url = 'http://127.0.0.1:1';
    my @e = ('bench', '--engine', '--model', 'm');
    my @cases = (
        [ ['bench'],                          qr/a URL or --engine is needed/ ],
        [ ['bench', $url, 'b'],               qr/"b" belongs to no option/ ],
        [ ['bench', '--seed', 1, $url, 'b'],  qr/"b" belongs to no option/ ],
        [ ['bench', 'https://h'],             qr/no TLS here/ ],
        [ ['bench', 'ftp://h'],               qr/is no URL of the form/ ],
        [ ['bench', $url, '--concurrency', 0], qr/--concurrency 0 is outside/ ],
        [ ['bench', $url, '--rate', 0],       qr/--rate 0 is outside/ ],
        [ ['bench', $url, '--requests', 1, '--duration', 1], qr/not both/ ],
        [ ['bench', $url, '--stream', '--no-stream'], qr/not both/ ],
        [ ['bench', $url, '--profile', 'p', '--max-tokens', 1],
          qr/--profile says how long/ ],
        [ ['bench', $url, '--threads', 1],    qr/go with --engine/ ],
        [ ['bench', $url, '--prompts', 'p'],  qr/go with --engine/ ],
        [ [@e, '--prompts', 'p', '--prompt-tokens', 1],
          qr/--prompts says how long/ ],
        [ ['bench', $url, '--activations', 16],
          qr/go with --engine/ ],
        [ ['bench', $url, '--temperature', 1], qr/go with --engine/ ],
        [ [@e, '--temperature', 2.5],
          qr/--temperature 2\.5 is outside 0 \.\. 2/ ],
        ( map { [ ['bench', $url, '--header', $_],
                  qr/--header is not "Name: value"/ ] }
          '', 'x', ': x', 'a b: x', "a\r\nb: x" ),
        ( map { [ ['bench', $url, '--header', $_],
                  qr/"key" has a control character in its value/ ] }
          "key: x\r\nb: y", "key: x\n", "key: x\r", "key: \x7f" ),
        [ ['bench', $url, '--header', 'content-length: 1'],
          qr/"Content-Length" is not to be chosen/ ],
        [ ['bench', $url, map { ('--header', "k: $_") } 1 .. 9],
          qr/--header is given more than 8 times/ ],
        [ [@e, '--header', 'k: v'],           qr/--engine goes with/ ],
        [ ['bench', '--kernels', '--header', 'k: v'],
          qr/--kernels goes with/ ],
        [ ['bench', '--engine'],              qr/--engine needs --model/ ],
        [ [@e, $url],                         qr/--engine asks no server/ ],
        [ [@e, '--rate', 1],                  qr/--engine goes with/ ],
        [ [@e, '--seed', 0],                  qr/--engine goes with/ ],
        ( map { [ [@e, '--cases', $_], qr/is no list of up to 16/ ] }
          'x', 'decode_', 'decode_0', 'decode_257', 'prefill_1x', 'decode_1,',
          'decode_1,decode_1', join(',', map { "decode_$_" } 1 .. 17) ),
        [ ['bench', '--kernels', $url],       qr/--kernels goes with/ ],
        [ ['inspect'],                        qr/one FILE is needed/ ],
        [ ['inspect', 'a', 'b'],              qr/"b" belongs to no option/ ],
        [ ['inspect', 'a', '--batch', 0],     qr/--batch 0 is outside/ ],
        [ ['metrics', 'a'],                   qr/"a" belongs to no option/ ],
        [ ['metrics', '--pid', 0],            qr/--pid 0 is outside/ ],
    );

    for my $case (@cases) {
        my ($args, $like) = @$case;
        my $r = run(@$args);
        my $name = "@$args";

        is($r->{code}, 2, "$name: exit code");
        like($r->{err}, $like, "$name: sentence");
        is(($r->{err} =~ tr/\n//), 1, "$name: one line");
        is($r->{out}, '', "$name: nothing on stdout");
    }
}


# streams and whole answers of known size, over one kept connection

sub counts {
    my $port = server(sub {
        my ($request) = @_;
        my $body = $request->{body};

        return answer(200, encode_json({ choices => [ {} ],
            usage => { prompt_tokens => 11, completion_tokens => 7 } }))
            if !$body->{stream};

        return stream(0.03, 'one', 'two', 'three');
    });

    my $r = json('bench', "http://127.0.0.1:$port", '--requests', 4,
                 '--max-tokens', 5, '--model', 'm"1', '--ignore-eos',
                 '--prompt-tokens', 17);
    my $j = $r->{json};

    is($r->{code}, 0, 'stream: exit code');
    is_deeply([@$j{qw/ done failed errors stream concurrency /}],
              [4, 0, {}, JSON::PP::true, 1], 'stream: all done');
    is_deeply([@$j{qw/ prompt_tokens completion_tokens cached_tokens /}],
              [40, 12, 8], 'stream: tokens');
    is_deeply([map { $j->{$_}{count} }
               qw/ ttft_ms inter_token_ms per_token_ms end_to_end_ms /],
              [4, 8, 4, 4], 'stream: samples');

    for my $name (qw/ ttft_ms inter_token_ms per_token_ms end_to_end_ms /) {
        my $s = $j->{$name};
        is_deeply([sort keys %$s], [qw/ count max mean min p50 p90 p99 /],
                  "$name: keys");
        ok($s->{min} <= $s->{p50} && $s->{p50} <= $s->{p90}
           && $s->{p90} <= $s->{p99} && $s->{p99} <= $s->{max},
           "$name: in order");
    }

    cmp_ok($j->{inter_token_ms}{p50}, '>=', 15, 'text comes every 30 ms');
    cmp_ok($j->{end_to_end_ms}{min}, '>=', 50, 'end to end is all of it');
    cmp_ok($j->{per_token_ms}{mean}, '>=', 15, 'per token');
    cmp_ok(abs($j->{together_ms} - $j->{per_token_ms}{mean}), '<', 0.01,
           'one stream is all');

    my @seen = seen($port);
    is(scalar(grep { $_->{first} } @seen), 1, 'one connection');
    like($seen[0]{head}, qr{^POST /v1/chat/completions HTTP/1\.1\r\n}, 'POST');
    like($seen[0]{head}, qr{\r\nHost: 127\.0\.0\.1:$port\r\n}, 'Host');

    my $b = $seen[0]{body};
    is_deeply([@$b{qw/ model max_tokens ignore_eos stream stream_options /}],
              ['m"1', 5, JSON::PP::true, JSON::PP::true,
               { include_usage => JSON::PP::true }], 'the request');

    my @prompts = map { $_->{body}{messages}[0]{content} } @seen;
    is_deeply([map { scalar split } @prompts], [(17) x 4], 'words');
    is(scalar(keys %{{ map { $_ => 1 } @prompts }}), 4, 'no two are alike');

    my @same;

    for (1, 2) {
        json('bench', "http://127.0.0.1:$port/v1/completions",
             '--requests', 2, '--no-stream', '--seed', 5, '--warmup', 1);
        push @same, join '|', map { $_->{body}{prompt} } seen($port);
    }

    is($same[0], $same[1], 'the same seed, the same prompts');
    is(scalar(split /\|/, $same[0]), 3, 'the warm-up is one more');

    $r = json('bench', "http://127.0.0.1:$port", '--requests', 3,
              '--no-stream', '--warmup', 2);
    $j = $r->{json};
    is_deeply([@$j{qw/ done prompt_tokens completion_tokens ttft_ms stream /}],
              [3, 33, 21, undef, JSON::PP::false], 'whole answers');
    ok(!exists +(seen($port))[0]{body}{stream}, 'no stream was asked for');

    # headers of the command line, in every request

    my @keys = map { "X-Key-$_: v:=$_" } 2 .. 8;
    json('bench', "http://127.0.0.1:$port", '--requests', 2, '--warmup', 1,
         '--header', 'Authorization: Bearer a b=', map { "--header=$_" } @keys);

    @seen = seen($port);
    my $all = join "\r\n", '', 'Authorization: Bearer a b=', @keys, '', '';
    is(scalar(grep { $_->{head} =~ /\Q$all\E\z/ } @seen), 3,
       'headers in every request');

    # text report, a file, and an operand behind the options

    $r = run('bench', '--requests', 2, '--json', "$Dir/report.json",
             "http://127.0.0.1:$port");
    is($r->{code}, 0, 'text: exit code');
    like($r->{out}, qr/^requests: +2 done, 0 failed in/m, 'text: requests');
    like($r->{out}, qr/^tokens out: +6, [\d.]+\/s$/m, 'text: tokens');
    like($r->{out}, qr/^to first token( +[\d.]+){5}$/m, 'text: first token');
    is($r->{err}, '', 'text: no progress without a terminal');
    is(decode_json(slurp("$Dir/report.json"))->{done}, 2, 'the file');

    # on a terminal one line tells how far it is, and is gone at the end

    my $seen = `script -qec '$Program bench http://127.0.0.1:$port --requests 30 --rate 15' /dev/null </dev/null`;
    like($seen, qr/\r\e\[K\d+ s: [1-9]\d* done, 0 failed, \d+ running/,
         'terminal: progress');
    like($seen, qr/\r\e\[Krequests: +30 done, 0 failed in/,
         'terminal: the report in its place');

    $r = run('bench', "http://127.0.0.1:$port", '--requests', 1, '--json',
             "$Dir/none/x");
    is($r->{code}, 1, 'no such folder: exit code');
    like($r->{err}, qr/none\/x: No such file/, 'no such folder: sentence');
}


sub failures {
    my %answers = (
        '503'          => answer(503, '{"error":{"message":"full"}}'),
        'stream_error' => "HTTP/1.1 200 OK\r\n"
                          . "Content-Type: text/event-stream\r\n"
                          . "Connection: close\r\n\r\n"
                          . "data: {\"error\":{\"message\":\"x\"}}\n\n",
        'incomplete'   => "HTTP/1.1 200 OK\r\n"
                          . "Content-Type: text/event-stream\r\n"
                          . "Content-Length: 12\r\n\r\ndata: {}\n\n\n\n",
        'protocol'     => "garbage\r\n",
        'closed'       => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
        'timeout'      => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhold",
    );

    for my $name (sort keys %answers) {
        my $port = server(sub { $answers{$name} });
        my $r = json('bench', "http://127.0.0.1:$port", '--requests', 2,
                     '--timeout', $name eq 'timeout' ? 0.3 : 10);

        is($r->{code}, 1, "$name: exit code");
        is($r->{err}, "mistral bench: no request succeeded\n",
           "$name: sentence");
        is_deeply($r->{json}{errors}, { $name => 2 }, "$name: counted");
        is_deeply([@{ $r->{json} }{qw/ done failed ttft_ms /}],
                  [0, 2, undef], "$name: no answer");
        like($r->{json}{first_error}, $name eq '503' ? qr/full/ : qr/\w/,
             "$name: what the first said");
    }

    # some fail, some do not: that is a measurement

    my $n = 0;
    my $port = server(sub { $n++ % 2 ? answer(429, 'slow') : stream(0, 'a') });
    my $r = run('bench', "http://127.0.0.1:$port", '--requests', 4);
    is($r->{code}, 0, 'half of them: exit code');
    like($r->{out}, qr/2 done, 2 failed/, 'half of them: counted');
    like($r->{out}, qr/^failures: +status 429: 2$/m, 'half of them: status');
    like($r->{out}, qr/^the first said: +slow$/m, 'half of them: why');

    my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
    $port = $s->sockport;
    close $s;

    $r = run('bench', "http://127.0.0.1:$port");
    is($r->{code}, 1, 'nobody there: exit code');
    is($r->{err}, "mistral bench: 127.0.0.1 port $port: Connection refused\n",
       'nobody there: sentence');

    $port = server(sub { answer(500, 'x') });
    $r = run('bench', "http://127.0.0.1:$port", '--warmup', 1);
    is($r->{code}, 1, 'warm-up fails: exit code');
    like($r->{err}, qr/no request of the warm-up succeeded: x/,
         'warm-up fails: sentence');
}


# a server that ends its connections, politely and not

sub connections {
    my $port = server(sub {
        return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
               . '{"choices":[]}';
    });

    my $r = json('bench', "http://127.0.0.1:$port", '--requests', 3,
                 '--no-stream');
    is_deeply([@{ $r->{json} }{qw/ done failed without_usage retried /}],
              [3, 0, 3, 0], 'Connection: close');
    is(scalar(grep { $_->{first} } seen($port)), 3, 'three connections');

    # it promises to go on, then closes at the next request

    $port = server(sub {
        my ($request) = @_;
        return $request->{first} ? answer(200, '{"choices":[]}') : '';
    });

    $r = json('bench', "http://127.0.0.1:$port", '--requests', 3,
              '--no-stream');
    is_deeply([@{ $r->{json} }{qw/ done failed retried /}], [3, 0, 2],
              'a kept connection that is closed is no failure');

    # it promises to go on, ends its half with the answer and reads on: nobody
    # would tell again

    $port = server(sub { [\'cork', answer(200, '{"choices":[]}'), \'end'] });

    $r = json('bench', "http://127.0.0.1:$port", '--requests', 3,
              '--no-stream', '--timeout', 15);
    is_deeply([@{ $r->{json} }{qw/ done failed /}], [3, 0],
              'an end that comes with an answer is seen');
    is(scalar(grep { $_->{first} } seen($port)), 3, 'three connections again');
}


sub profiles {
    my $port = server(sub { answer(200, '{"choices":[]}') });
    my @base = ('bench', "http://127.0.0.1:$port", '--no-stream', '--profile');

    spew("$Dir/p.json", encode_json([
        { weight => 3, prompt_tokens => 5, max_tokens => 1 },
        { prompt => "say \"\x{e9}\"\n", max_tokens => 2 } ]));

    my $r = json(@base, "$Dir/p.json", '--requests', 80, '--seed', 7);
    is($r->{json}{done}, 80, 'profile: all done');

    my %n;
    for (seen($port)) {
        my $text = $_->{body}{messages}[0]{content};
        $n{ $_->{body}{max_tokens} }++;
        $_->{body}{max_tokens} == 2 ? $text eq "say \"\x{e9}\"\n"
                                    : split(' ', $text) == 5
            or fail("profile: prompt $text");
    }

    is_deeply(\%n, { 1 => 60, 2 => 20 }, 'profile: dealt, three of four');

    spew("$Dir/p.json", encode_json([
        { weight => 0.75, prompt_tokens => 5, max_tokens => 1 },
        { weight => 0.25, prompt_tokens => 5, max_tokens => 2 } ]));

    json(@base, "$Dir/p.json", '--requests', 80, '--seed', 7);
    %n = ();
    $n{ $_->{body}{max_tokens} }++ for seen($port);

    is($n{1} + $n{2}, 80, 'profile: nothing else');
    cmp_ok($n{1}, '>', 45, 'profile: three of four, about');
    cmp_ok($n{2}, '>', 8, 'profile: one of four, about');

    # those of docs/bench.md

    my %own = (mixed => [ 100, { 64 => 42, 128 => 33, 256 => 25 } ],
               beside => [ 15, { 64 => 3, 192 => 12 } ]);

    for my $name (sort keys %own) {
        my ($n, $want) = @{ $own{$name} };
        %n = ();

        json(@base, "t/bench/$name.json", '--requests', 2 * $n);
        $n{ $_->{body}{max_tokens} }++ for seen($port);

        is_deeply(\%n, { map { $_ => 2 * $want->{$_} } keys %$want },
                  "profile: $name.json");
    }

    my @bad = (
        [ '[',                        qr/p\.json: no JSON: line 1/ ],
        [ '{}',                       qr/a list of 1 \.\. 10000 objects/ ],
        [ '[]',                       qr/a list of 1 \.\. 10000 objects/ ],
        [ '[{}, 1]',                  qr/entry 1 is no object/ ],
        [ '[{"weight": 0}]',          qr/entry 0: "weight" is no number/ ],
        [ '[{"weight": "1"}]',        qr/entry 0: "weight" is no number/ ],
        [ '[{"max_tokens": 0}]',      qr/entry 0: .* whole numbers/ ],
        [ '[{"prompt_tokens": 1.5}]', qr/entry 0: .* whole numbers/ ],
        [ '[{"prompt": 1}]',          qr/entry 0: "prompt" is a text/ ],
        [ '[{"prompt": "a", "prompt_tokens": 1}]',
          qr/entry 0: "prompt" is a text/ ],
    );

    for my $case (@bad) {
        my ($text, $like) = @$case;
        spew("$Dir/p.json", $text);
        $r = run(@base, "$Dir/p.json");
        is($r->{code}, 2, "profile $text: exit code");
        like($r->{err}, $like, "profile $text: sentence");
    }

    $r = run(@base, "$Dir/none");
    is($r->{code}, 2, 'no profile: exit code');
    like($r->{err}, qr/none: No such file/, 'no profile: sentence');
}


# the module with the null model: a rate that is known

sub against_nginx {
    my $port = nginx();

    my $r = json('bench', "http://127.0.0.1:$port", '--requests', 12,
                 '--concurrency', 6, '--max-tokens', 8, '--warmup', 2,
                 '--prompt-tokens', 4);
    my $j = $r->{json};

    is($r->{code}, 0, 'nginx: exit code');
    is_deeply([@$j{qw/ done failed completion_tokens without_usage /}],
              [12, 0, 96, 0], 'nginx: all tokens');
    cmp_ok($j->{ttft_ms}{min}, '>=', 9, 'nginx: the first after 10 ms');
    # a client that is late for the first one sees the others come faster

    cmp_ok($j->{end_to_end_ms}{min}, '>=', 149, 'nginx: 50 tokens/s');
    cmp_ok($j->{seconds}, '>', 2 * 0.14, 'nginx: two rounds');

    # who begins last reads at most seven tokens while all six go on

    cmp_ok($j->{together_ms}, '>', 0, 'nginx: all at once');
    cmp_ok($j->{together_ms}, '<=', $j->{end_to_end_ms}{max},
           'nginx: and no longer');

    $r = json('bench', "http://127.0.0.1:$port", '--duration', 0.5,
              '--rate', 100, '--max-tokens', 4, '--seed', 1);
    $j = $r->{json};
    my $n = $j->{done};

    is($r->{code}, 0, 'rate: exit code');
    is($j->{concurrency}, 1024, 'rate: connections');
    cmp_ok($n, '>', 20, 'rate: about 50 requests');
    cmp_ok($n, '<', 100, 'rate: not many more');
    is($j->{completion_tokens}, 4 * $n, 'rate: all tokens');
    cmp_ok($j->{together_ms}, '==', 0, 'rate: never all at once');

    # an open loop with one connection: waiting counts

    $r = json('bench', "http://127.0.0.1:$port", '--requests', 20, '--rate',
              1000, '--max-tokens', 2, '--concurrency', 1);
    $j = $r->{json};
    cmp_ok($j->{late}, '>', 15, 'one connection: late');
    cmp_ok($j->{ttft_ms}{max}, '>', 300, 'one connection: waiting counts');

    $r = json('bench', "http://127.0.0.1:$port", '--requests', 600,
              '--concurrency', 300, '--max-tokens', 8, '--prompt-tokens', 1);
    is_deeply([@{ $r->{json} }{qw/ done failed completion_tokens /}],
              [600, 0, 4800], '300 connections');

    metrics();
}


sub metrics {
    my $r = run('metrics', '--json');
    my ($j) = grep { $_->{model} eq 'bench_t' } @{ decode_json($r->{out}) };

    is($r->{code}, 0, 'metrics: exit code');
    is($r->{err}, '', 'metrics: nothing on stderr');
    is_deeply([@$j{qw/ state backend max_batch context restarts workers /}],
              ['ready', 'null', 512, 4096, 0, 1], 'metrics: state');
    cmp_ok($j->{finished}, '>=', 12 + 600 + 20, 'metrics: finished');
    cmp_ok($j->{completion_tokens}, '>=', 96 + 4800, 'metrics: tokens');
    is($j->{running}, 0, 'metrics: nothing runs');
    is($j->{held_requests}, 0, 'metrics: no place is held');
    is($j->{master_pid}, slurp("$Dir/nginx.pid") + 0,
       'metrics: whose engine it is');

    for my $field (qw/ engine_pid supervisor_pid /) {
        $r = run('metrics', '--pid', $j->{$field});
        is($r->{code}, 0, "--pid $field: exit code");
        like($r->{out}, qr/^model +bench_t\nstate +ready$/m, "$field: text");
        like($r->{out}, qr/^completion_tokens +$j->{completion_tokens}$/m,
             "--pid $field: tokens");
    }

    $r = run('metrics', '--pid', $$);
    is($r->{code}, 1, 'metrics of another process: exit code');
    like($r->{err}, qr/^mistral metrics: process $$: /, 'and sentence');
    is($r->{out}, '', 'and nothing on stdout');
}


sub engine {
    my @m = ('bench', '--engine', '--model', $Model, '--repeat', 1);

    my $r = json(@m, '--cases', 'prefill_16,prefill_40', '--threads', 1,
                 '--isa', 'c');
    my $j = $r->{json};

    is($r->{code}, 0, 'engine: exit code');
    is_deeply([sort keys %$j],
              [qw/ best isa model prefill_16 prefill_40 repeat threads /],
              'engine: keys');
    is_deeply([@$j{qw/ isa threads repeat /}], ['c', 1, 1], 'engine: how');
    cmp_ok($j->{prefill_40}, '>', 0, 'engine: a rate');
    is($j->{prefill_40}, $j->{best}{prefill_40}, 'engine: one run is best');

    for my $kv (qw/ f16 q8 /) {
        $r = run(@m, '--cases', 'decode_2', '--kv-cache', $kv);
        is($r->{code}, 0, "engine, kv_cache $kv");
    }

    $r = run(@m, '--cases', 'decode_2', '--temperature', 1);
    is($r->{code}, 0, 'engine, drawn tokens');
    prompts(@m, '--cases', 'decode_2');

    $r = run(@m, '--kv-cache', 'f17');
    is($r->{code}, 2, 'engine, kv_cache f17: exit code');
    like($r->{err}, qr/--kv-cache "f17" is not f32, f16, q8, bf16 or fp8/,
         'engine, kv_cache f17: sentence');

    $r = run(@m, '--cases', 'prefill_9000');
    is($r->{code}, 78, 'engine, over the context: exit code');
    like($r->{err}, qr/a case of 9001 tokens, the model was made for 8192/,
         'engine, over the context: sentence');

    $r = run('bench', '--engine', '--model', "$Dir/none");
    is($r->{code}, 78, 'engine, no file: exit code');
    like($r->{err}, qr/none: cannot be opened/, 'engine, no file: sentence');
}


sub prompts {
    my @e = (@_, '--prompts', "$Dir/prompts");

    for my $bad ('', '{}', '[]', '[[]]', '[1]', '[[1], [-1]]', '[[1, "2"]]',
                 '[[1, 1.5]]')
    {
        spew("$Dir/prompts", $bad);

        my $r = run(@e);
        is($r->{code}, 78, "engine, prompts \"$bad\": exit code");
        like($r->{err}, qr/\bprompts(?:: | is no list of lists of token ids)/,
             "engine, prompts \"$bad\": sentence");
    }

    spew("$Dir/prompts", '[[1, 2, 3], [4]]');
    is(run(@e)->{code}, 0, 'engine, prompts');

    spew("$Dir/prompts", '[[1], [49152]]');
    my $r = run(@e);
    is($r->{code}, 1, 'engine, a prompt that is no text: exit code');
    like($r->{err}, qr/refused or broke an answer/,
         'engine, a prompt that is no text: sentence');
}


sub kernels {
    my $r = json('bench', '--kernels');
    my $j = $r->{json};

    is($r->{code}, 0, 'kernels: exit code');
    is_deeply([sort keys %$j],
              [sort qw/ isa limits Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K F32
                        F16 BF16 kv_f32 kv_f16 kv_q8 /], 'kernels: all types');
    is_deeply([grep { $_ ne 'digits_gmac_s' } sort keys %{ $j->{limits} }],
              [qw/ float_gmac_s read_gb_s /], 'kernels: limits');
    is_deeply([sort keys %{ $j->{Q4_K} }],
              [qw/ gmac_s_1 gmac_s_4 gmac_s_8 memory_gb_s memory_gmac_s /],
              'kernels: what of each');
    is_deeply([grep { ref $j->{$_} && grep { $_ <= 0 } values %{ $j->{$_} } }
               keys %$j], [], 'kernels: numbers');

    # bytes of a weight: 4 bits, scale and minimum of 16 bits for 32

    cmp_ok(abs($j->{Q4_1}{memory_gb_s} / $j->{Q4_1}{memory_gmac_s} - 20 / 32),
           '<', 1e-3, 'kernels: bytes and operations agree');

    $r = run('bench', '--kernels', '--isa', 'x');
    is($r->{code}, 78, 'kernels: no such instruction set');
    like($r->{err}, qr/"x" is not in this build/, 'kernels: said');

    # of a device: without one, or beside the CPU's options

    $r = run('bench', '--kernels', '--device', 'cuda:0', '--isa', 'avx2');
    is($r->{code}, 2, 'kernels: options of two kinds');
    like($r->{err}, qr/, or with --device and --json$/, 'kernels: are refused');

    SKIP: {
        skip 'there is a device', 2 if -e '/dev/nvidiactl';

        $r = run('bench', '--kernels', '--device', 'cuda:0');
        isnt($r->{code}, 0, 'kernels: no device');
        like($r->{err}, qr/^mistral bench: \S[^\n]+$/, 'kernels: is a sentence');
    }
}


sub nginx {
    my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
    my $port = $s->sockport;
    close $s;

    mkdir "$Dir/logs";
    spew("$Dir/nginx.conf", <<"END");
load_module  $Build/ngx_http_mistral_module.so;
pid          $Dir/nginx.pid;
error_log    $Dir/logs/error.log info;
worker_processes      1;
worker_rlimit_nofile  4096;

events { worker_connections 2048; }

http {
    access_log             off;
    client_body_temp_path  $Dir/body;
    proxy_temp_path        $Dir/proxy;
    fastcgi_temp_path      $Dir/fastcgi;
    uwsgi_temp_path        $Dir/uwsgi;
    scgi_temp_path         $Dir/scgi;

    mistral_model bench_t {
        path       null:rate=50,delay=10;
        max_batch  512;
        context    4096;
    }

    server {
        listen  127.0.0.1:$port backlog=1024;
        location /v1/    { mistral_pass bench_t; }
        location /ready  { mistral_health ready; }
    }
}
END

    system($ENV{TEST_NGINX_BINARY} || 'nginx', '-p', $Dir, '-c', "$Dir/nginx.conf") == 0
        or BAIL_OUT('nginx does not start: ' . slurp("$Dir/logs/error.log"));
    $nginx = 1;

    for (1 .. 100) {
        return $port
            if run('healthcheck', "http://127.0.0.1:$port/ready")->{code} == 0;
        sleep 0.1;
    }

    BAIL_OUT('the engine does not get ready');
}


sub json {
    my $r = run(@_, '--json', '-');

    $r->{json} = eval { decode_json($r->{out}) };
    ok($r->{json}, 'JSON') or diag "$@ $r->{out} $r->{err}";

    return $r;
}


END {
    my $code = $?;

    if ($nginx) {
        my $pid = eval { slurp("$Dir/nginx.pid") + 0 };
        kill 'QUIT', $pid if $pid;

        for (1 .. 100) {
            last if !$pid || !kill 0, $pid;
            sleep 0.1;
        }
    }

    $? = $code;
}
