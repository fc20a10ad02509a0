#!/usr/bin/perl

# The program "mistral" from the shell: help, exit codes, sentences, the
# shape of what it prints, and the answer that the reference gives.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use File::Copy qw/ copy /;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use Socket qw/ IPPROTO_TCP TCP_NODELAY /;
use Test::More;
use Time::HiRes qw/ time sleep /;

use lib 't/lib';
use MistralProgram;
use MistralTiny;

my $france = 'What is the capital of France?';
my @france = (504, 3575, 282, 4649, 314, 7042, 30, 2);

# what the template makes of it
my @prompt = (1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308,
              34519, 28, 7018, 411, 407, 19712, 8182, 2, 198, 1, 4093, 198,
              1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198);

help();
usage();
healthcheck();
diagnose();
refusals();
answers();
json();
ids();
logits();
golden();
sampling();

done_testing();


sub help {
    my $r = run([]);
    is($r->{code}, 2, 'no command: exit code');
    like($r->{err}, qr/^usage: mistral COMMAND/, 'no command: usage');
    is($r->{out}, '', 'no command: nothing on stdout');

    for my $option ('--help', '-h', 'help') {
        $r = run([$option]);
        is($r->{code}, 0, "$option: exit code");
        is($r->{err}, '', "$option: nothing on stderr");
        like($r->{out}, qr/^exit codes:$/m, "$option: exit codes");
    }

    my ($version) = slurp('src/base/mst_version.h') =~ /MST_VERSION  "(.*)"/;
    my $v = run(['--version']);
    is($v->{code}, 0, '--version: exit code');
    is($v->{out}, "mistral $version\n", '--version: one line');
    is($v->{err}, '', '--version: nothing on stderr');

    my @commands = $r->{out} =~ /^  ([a-z]+) +\w/mg;
    cmp_ok(scalar @commands, '>=', 2, "commands: @commands");

    for my $command (@commands) {
        $r = run([$command, '--help']);
        is($r->{code}, 0, "$command --help: exit code");
        is($r->{err}, '', "$command --help: nothing on stderr");
        like($r->{out}, qr/^usage: mistral $command\b/,
             "$command --help: usage");

        my @wide = grep { length > 79 } split /\n/, $r->{out};
        is("@wide", '', "$command --help: fits a terminal");
    }
}


# one sentence on stderr, nothing on stdout, exit code 2

sub usage {
    my @m = ('generate', '--model', $Model);

    my @cases = (
        [ ['frobnicate'],                      qr/no command "frobnicate"/ ],
        [ ['--frobnicate'],                    qr/no command "--frobnicate"/ ],
        [ ['generate'],                        qr/--model is needed/ ],
        [ [@m],                                qr/one of --prompt and/ ],
        [ [@m, '--prompt', 'a', '--prompt-ids', 'b'],
          qr/--prompt and --prompt-ids are both given/ ],
        [ [@m, '--prompt', 'a', '--frob'],     qr/no option "--frob"/ ],
        [ [@m, '--prompt', 'a', '--max', '1'], qr/no option "--max"/ ],
        [ [@m, '--prompt', 'a', '-j'],         qr/no option "-j"/ ],
        [ [@m, '--prompt'],                    qr/--prompt needs a value/ ],
        [ [@m, 'text'],                        qr/"text" belongs to no/ ],
        [ [@m, '--prompt', 'a', '--json=1'],   qr/--json takes no value/ ],
        [ [@m, '--prompt', 'a', '--max-tokens', '1x'],
          qr/--max-tokens "1x" is no number/ ],
        [ [@m, '--prompt', 'a', '--max-tokens', '-1'],
          qr/--max-tokens "-1" is no whole number/ ],
        [ [@m, '--prompt', 'a', '--max-tokens', '1.5'],
          qr/--max-tokens "1.5" is no whole number/ ],
        [ [@m, '--prompt', 'a', '--max-tokens='],
          qr/--max-tokens "" is no number/ ],
        [ [@m, '--prompt', 'a', '--max-tokens', '2147483648'],
          qr/--max-tokens 2147483648 is outside 0 .. 2147483647/ ],
        [ [@m, '--prompt', 'a', '--seed', '99999999999999999999'],
          qr/--seed 99999999999999999999 is outside/ ],
        [ [@m, '--prompt', 'a', '--temperature', '2.1'],
          qr/--temperature 2.1 is outside 0 .. 2/ ],
        [ [@m, '--prompt', 'a', '--temperature', 'nan'],
          qr/--temperature "nan" is no number/ ],
        [ [@m, '--prompt', 'a', '--temperature', '1-2'],
          qr/--temperature "1-2" is no number/ ],
        [ [@m, '--prompt', 'a', '--top-p', '0'], qr/--top-p 0 is outside/ ],
        [ [@m, '--prompt', 'a', '--threads', '65'],
          qr/--threads 65 is outside 1 .. 64/ ],
        [ ['bench', '--engine', '--model', $Model, '--threads', '65'],
          qr/--threads 65 is outside 1 .. 64/ ],
        [ [@m, '--prompt', 'a', '--threads', '0'],
          qr/--threads 0 is outside/ ],
        [ [@m, '--prompt-ids', 'a', '--chat'],  qr/--chat renders a text/ ],
        [ [@m, '--prompt', 'a', '--logits', 'last'],
          qr/--logits needs --json/ ],
        [ [@m, '--prompt', 'a', '--json', '--logits', 'some'],
          qr/--logits "some" is neither/ ],
        [ [@m, '--prompt', 'a', '--rope', 'some'],
          qr/--rope "some" is neither/ ],
        [ [@m, '--prompt', 'a', '--dtype', 'int9'],
          qr/--dtype "int9" is not auto, bf16, fp8 or int4/ ],
        [ [@m, '--prompt', 'a', '--kv-cache', 'f8'],
          qr/--kv-cache "f8" is not f32, f16, q8, bf16 or fp8/ ],
        [ [@m, '--prompt', 'a', '--device', 'cuda'],
          qr/--device "cuda" is not cpu or cuda:N/ ],
        [ [@m, '--prompt', 'a', '--weight-layouts', '3'],
          qr/--weight-layouts 3 is outside 1 .. 2/ ],
        [ [@m, '--prompt', 'a', '--weight-layouts', '2'],
          qr/--weight-layouts 2 needs --device cuda:N/ ],
        [ ['bench', '--engine', '--model', $Model, '--weight-layouts', '1'],
          qr/--weight-layouts 1 needs --device cuda:N/ ],
        [ ['bench', '--engine', '--model', $Model, '--dtype', 'int9'],
          qr/--dtype "int9" is not auto/ ],
        [ ['bench', '--kernels', '--batch-invariant'],
          qr/--kernels goes with --isa, --activations and --json only/ ],
        [ ['diagnose', 'x'],                   qr/"x"/ ],
        [ ['diagnose', '--device', 'cpu'],     qr/"cpu" is not cuda:N/ ],
        [ ['diagnose', '--device', 'cuda:x'],  qr/is not cpu or cuda:N/ ],
        [ ['healthcheck'],                     qr/one URL is needed/ ],
        [ ['healthcheck', 'a', 'b'],           qr/one URL is needed/ ],
        [ ['healthcheck', '--frob'],           qr/no option "--frob"/ ],
        ( map { [ ['healthcheck', $_], qr/is no URL of the form http:/ ] }
          'https://127.0.0.1/', 'http://', 'http://:80/', 'http://h:0/',
          'http://h:65536/', 'http://h:80x/', 'http://h/ a', 'http://[::1/',
          'http://h?x', 'localhost:80', "http://h/\n" ),
    );

    for my $case (@cases) {
        my ($args, $like) = @$case;
        my $r = run($args);
        my $name = join ' ', map { $_ eq $Model ? 'MODEL' : $_ } @$args;
        $name =~ s/\n/\\n/g;

        is($r->{code}, 2, "$name: exit code");
        like($r->{err}, $like, "$name: sentence");
        is(($r->{err} =~ tr/\n//), $name =~ /\\n/ ? 2 : 1, "$name: one line");
        is($r->{out}, '', "$name: nothing on stdout");
    }
}


sub healthcheck {
    my $r;

    $r = serve("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    is($r->{code}, 0, '200: exit code');
    is($r->{out} . $r->{err}, '', '200: says nothing');
    like($r->{request}, qr/^GET \/healthz\?a=b HTTP\/1\.1\r\n/, 'GET');
    like($r->{request}, qr/\r\nHost: 127\.0\.0\.1:\d+\r\n/, 'Host');
    like($r->{request}, qr/\r\nConnection: close\r\n/, 'Connection');

    $r = serve("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 21\r\n"
               . "\r\n{\"status\":\n\"loading\"}", hold => 1);
    is($r->{code}, 1, '503: exit code');
    is($r->{err}, "mistral healthcheck: status 503: "
                  . "{\"status\": \"loading\"}\n",
       '503: status and body in one line');

    $r = serve("HTTP/1.0 404 Not Found\r\n\r\n\e[31m" . 'x' x 1000);
    is($r->{code}, 1, '404: exit code');
    is($r->{err}, 'mistral healthcheck: status 404:  [31m' . 'x' x 295 . "\n",
       '404: a long body is cut and harmless');

    $r = serve("HTTP/1.1 204 No Content\r\n\r\n");
    is($r->{code}, 1, '204: exit code');
    is($r->{err}, "mistral healthcheck: status 204\n", '204: sentence');

    for my $bad ('', 'garbage', "HTTP/1.1 20", "HTTP/2 200 OK\r\n\r\n",
                 "SSH-2.0-OpenSSH_9.2p1\r\n", "HTTP/1.1 20x OK\r\n\r\n")
    {
        $r = serve($bad);
        (my $name = $bad) =~ s/\s+/ /g;
        is($r->{code}, 1, "\"$name\": exit code");
        is($r->{err}, "mistral healthcheck: the answer is no HTTP\n",
           "\"$name\": sentence");
    }

    $r = serve('', hold => 1);
    is($r->{code}, 1, 'silence: exit code');
    is($r->{err}, "mistral healthcheck: no answer within 5 seconds\n",
       'silence: sentence');
    cmp_ok($r->{time}, '>', 4, 'silence: waits');
    cmp_ok($r->{time}, '<', 30, 'silence: but not for ever');

    my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1');
    my $port = $s->sockport;
    close $s;

    $r = run(['healthcheck', "http://127.0.0.1:$port"]);
    is($r->{code}, 1, 'nobody there: exit code');
    is($r->{err}, "mistral healthcheck: 127.0.0.1 port $port: "
                  . "Connection refused\n", 'nobody there: sentence');
}


# files that cannot be run: 78, and the sentence names the file

# findings without a driver, and without a library or with none that is one

sub diagnose {
    my $yes = "\342\234\223";
    my $no = "\342\234\227";

    mkdir "$Dir/alone";
    copy($Program, "$Dir/alone/mistral") or die $!;
    chmod 0755, "$Dir/alone/mistral";

    local $MistralProgram::Program = "$Dir/alone/mistral";

    SKIP: {
        skip 'there is a driver', 8 if -e '/dev/nvidiactl';

        my $r = run(['diagnose']);
        is($r->{code}, 1, 'diagnose: exit code');
        is($r->{err}, '', 'diagnose: nothing on stderr');
        like($r->{out}, qr/^$yes program +mistral \d/, 'diagnose: program');
        like($r->{out}, qr/^$no driver +no NVIDIA driver: libcuda\.so\.1: /m,
             'diagnose: no driver');
        like($r->{out}, qr/^$no library +\S+: cannot open .*; "make cuda" builds/m,
             'diagnose: no library');
        is(scalar(grep { !/^(?:$yes|$no|-) [A-Za-z]+ +\S/ }
                  split /\n/, $r->{out}), 0, 'diagnose: a mark for each line');

        $r = run(['diagnose', '--json', '--device', 'cuda:1']);
        is($r->{code}, 1, 'diagnose --json: exit code');

        my $j = decode_json($r->{out});
        is_deeply([$j->{ok} ? 1 : 0, map { "$_->{name} $_->{finding}" }
                   grep { $_->{name} ne 'NCCL' } @{ $j->{checks} }],
                  [0, 'program ok', 'driver wrong', 'library wrong'],
                  'diagnose --json: findings');
    }

    spew("$Dir/alone/libmst_cuda.so", 'x' x 5000);
    like(run(['diagnose'])->{out}, qr/^$no library +\S+: invalid ELF/m,
         'diagnose: what is no library');
    unlink "$Dir/alone/libmst_cuda.so";
    symlink(abs_path(glob '/lib/x86_64-linux-gnu/libm.so.6'),
            "$Dir/alone/libmst_cuda.so") or die $!;
    like(run(['diagnose'])->{out},
         qr/^$no library +\S+ exports no mst_cuda_probe: it is of another v/m,
         'diagnose: another library');
}


sub refusals {
    my $head = slurp($Model, 3_000_000);

    my %files = (
        empty     => [ '', qr/the file is empty/ ],
        text      => [ "no model\n" x 10, qr/no GGUF file/ ],
        cut       => [ substr($head, 0, 100_000), qr/the file ends after/ ],
        headonly  => [ $head, qr/tensor "[\w.]+": \d+ bytes at offset/ ],
    );

    for my $name (sort keys %files) {
        my ($data, $like) = @{ $files{$name} };
        spew("$Dir/$name", $data);

        my $r = run(['generate', '--model', "$Dir/$name", '--prompt', 'a']);
        is($r->{code}, 78, "$name: exit code");
        like($r->{err}, qr/^mistral generate: \Q$Dir\E\/$name: $like/,
             "$name: sentence");
        is(($r->{err} =~ tr/\n//), 1, "$name: one line");
        is($r->{out}, '', "$name: nothing on stdout");
    }

    my $r = run(['generate', '--model', "$Dir/none", '--prompt', 'a']);
    is($r->{code}, 78, 'no file: exit code');
    like($r->{err}, qr/none: cannot be opened: No such file/,
         'no file: sentence');

    my @m = ('generate', '--model', $Model);

    my @cases = (
        [ [@m, '--prompt', ''], qr/the prompt is empty/ ],
        [ [@m, '--prompt', "a\xff"], qr/no UTF-8: byte 1 is 0xff/ ],
        [ [@m, '--prompt', 'a', '--context', '8193'],
          qr/--context 8193 is over the 8192 tokens/ ],
        [ [@m, '--prompt', $france, '--context', '5'],
          qr/the prompt has \d+ tokens, which leaves no room in a context of 5/
        ],
        [ [@m, '--prompt-ids', "$Dir/none"], qr/none: cannot be opened/ ],
        map { [ [@m, '--prompt-ids', '-'], $_->[1], $_->[0] ] }
            [ '[1,2', qr/stdin: no JSON/ ],
            [ '', qr/stdin: no JSON/ ],
            [ '{}', qr/stdin: a JSON array of token ids is needed/ ],
            [ '[]', qr/the prompt is empty/ ],
            [ '[1, "2"]', qr/stdin: element 1 is no integer/ ],
            [ '[1.5]', qr/stdin: element 0 is no integer/ ],
            [ '[-1]', qr/element 0 is -1, the vocabulary has 49152/ ],
            [ '[0, 49152]', qr/element 1 is 49152, the vocabulary has 49152/ ],
            [ '[1] x', qr/stdin: no JSON/ ],
    );

    for my $case (@cases) {
        my ($args, $like, $stdin) = @$case;
        my $name = $stdin // $args->[4];
        $r = run($args, $stdin);
        is($r->{code}, 1, "prompt $name: exit code");
        like($r->{err}, $like, "prompt $name: sentence");
        is($r->{out}, '', "prompt $name: nothing on stdout");
    }
}


sub answers {
    my @m = ('generate', '--model', $Model, '--chat', '--max-tokens', 32);

    my $r = run([@m, '--prompt', $france]);
    is($r->{code}, 0, 'France: exit code');
    is($r->{out}, "The capital of France is Paris.\n", 'France: answer');
    like($r->{err}, qr/^prompt: 37 tokens in [\d.]+ s, [\d.]+ tokens\/s; /,
         'France: speed of the prompt');
    like($r->{err}, qr/; answer: 8 tokens in [\d.]+ s, [\d.]+ tokens\/s$/,
         'France: speed of the answer');

    $r = run([@m, '--prompt', '-'], $france);
    is($r->{out}, "The capital of France is Paris.\n", 'from stdin');

    unlike($r->{err}, qr/was cut/, 'France: not cut');

    $r = run([@m, '--prompt', $france, '--context', 40]);
    is($r->{code}, 0, 'cut by the context: exit code');
    like($r->{err}, qr/^the answer was cut: .* fill the context of 40 tokens$/m,
         'cut by the context: says so');

    $r = run([@m, '--prompt', $france, '--max-tokens', 3]);
    unlike($r->{err}, qr/was cut/, 'cut by --max-tokens: was asked for');

    $r = run(['generate', '--model', $Model, '--prompt', '1 2 3 4 5',
              '--max-tokens', 6]);
    is($r->{code}, 0, 'no chat: exit code');
    like($r->{out}, qr/^ 6/, 'no chat: it goes on');
}


sub json {
    my @m = ('generate', '--model', $Model, '--chat', '--prompt', $france,
             '--json');

    my $j = object(run([@m]));
    is_deeply([sort keys %$j], [qw/ finish_reason ids logprobs /], 'keys');
    is_deeply($j->{ids}, \@france, 'ids');
    is($j->{finish_reason}, 'stop', 'finish_reason');
    is(scalar @{ $j->{logprobs} }, 8, 'logprobs');
    ok(!(grep { $_ > 0 || $_ < -5 } @{ $j->{logprobs} }), 'logprobs fit');

    $j = object(run([@m, '--max-tokens', 3]));
    is_deeply($j->{ids}, [@france[0 .. 2]], 'cut: ids');
    is($j->{finish_reason}, 'length', 'cut: finish_reason');

    $j = object(run([@m, '--max-tokens', 12, '--ignore-eos']));
    is_deeply([@{ $j->{ids} }[0 .. 7]], \@france, '--ignore-eos: ids');
    is(scalar @{ $j->{ids} }, 12, '--ignore-eos: goes on');
    is($j->{finish_reason}, 'length', '--ignore-eos: finish_reason');

    $j = object(run([@m, '--context', 40]));
    is_deeply($j->{ids}, [@france[0 .. 2]], 'full context: ids');
    is($j->{finish_reason}, 'length', 'full context: finish_reason');

    $j = object(run([@m, '--max-tokens', 0]));
    is_deeply($j, { ids => [], logprobs => [], finish_reason => 'length' },
              'no tokens');
}


sub ids {
    my @m = ('generate', '--model', $Model, '--prompt-ids');
    my $text = encode_json(\@prompt);

    my $j = object(run([@m, '-', '--json'], $text));
    is_deeply($j->{ids}, \@france, 'ids from stdin');

    spew("$Dir/ids.json", " $text\n");
    my $r = run([@m, "$Dir/ids.json"]);
    is($r->{out}, "The capital of France is Paris.\n", 'ids from a file');

    # the same file without a tokenizer, and with a broken template: keys
    # are renamed

    my $data = slurp($Model);
    $data =~ s/tokenizer\.ggml\.model/tokenizer.ggml.xodel/ or die;
    spew("$Dir/bare.gguf", $data);
    undef $data;

    @m = ('generate', '--model', "$Dir/bare.gguf");

    $r = run([@m, '--prompt-ids', '-'], $text);
    is($r->{code}, 0, 'no tokenizer: exit code');
    is($r->{out}, "@france\n", 'no tokenizer: ids');

    $r = run([@m, '--prompt', 'a']);
    is($r->{code}, 78, 'no tokenizer, but text: exit code');
    like($r->{err}, qr/bare\.gguf: .*tokenizer/,
         'no tokenizer, but text: sentence');

    # a template that cannot be run

    $data = slurp($Model);
    $data =~ s/\{% for message in/{% far message in/ or die;
    spew("$Dir/bare.gguf", $data);

    $r = run([@m, '--prompt', 'a', '--max-tokens', 1]);
    is($r->{code}, 0, 'strange template, plain text: exit code');

    $r = run([@m, '--prompt', 'a', '--chat']);
    is($r->{code}, 78, 'strange template: exit code');
    like($r->{err}, qr/^mistral generate: \S+bare\.gguf: .*template/,
         'strange template: sentence');

    unlink "$Dir/bare.gguf";
}


sub logits {
    my @m = ('generate', '--model', $Model, '--json', '--max-tokens', 1,
             '--prompt-ids', '-', '--logits');

    my $last = object(run([@m, 'last'], encode_json(\@prompt)));
    is_deeply([sort keys %$last], [qw/ finish_reason ids logits logprobs /],
              'logits: keys');
    is(scalar @{ $last->{logits} }, 1, 'last: one row');
    is(scalar @{ $last->{logits}[0] }, 49152, 'last: of the vocabulary');

    my ($best, $sum) = (0, 0);
    my $row = $last->{logits}[0];
    $row->[$_] > $row->[$best] and $best = $_ for 1 .. $#$row;
    $sum += exp($_ - $row->[$best]) for @$row;

    is($best, 504, 'last: the likeliest token');
    cmp_ok(abs(-log($sum) - $last->{logprobs}[0]), '<', 1e-4,
           'last: its probability');

    my $none = object(run([@m, 'last', '--max-tokens', 0],
                          encode_json(\@prompt)));
    is_deeply($none->{logits}, $last->{logits}, 'last without a token');

    my $all = object(run([@m, 'all'], encode_json([@prompt[0 .. 4]])));
    is(scalar @{ $all->{logits} }, 5, 'all: a row per position');
    is((grep { @$_ != 49152 } @{ $all->{logits} }), 0, 'all: whole rows');

    # row k predicts from k + 1 tokens: the same bits as "last" of these

    for my $k (2, 4) {
        my $part = object(run([@m, 'last'], encode_json([@prompt[0 .. $k]])));
        is_deeply($part->{logits}[0], $all->{logits}[$k], "all: row $k");
    }

    # more than one chunk of the prompt

    $all = run([@m, 'all'], encode_json([@prompt, @prompt]));
    is($all->{code}, 0, 'all: a long prompt');
    is(() = $all->{out} =~ /\],\n\[/g, 2 * @prompt - 1, 'all: all its rows');

    # a long prompt of dynamic rope turns at a speed of its own

    my $long = [map { $_ * 7 % 250 } 1 .. 100];

    checkpoint("$Dir/dynamic", 'rope-yarn', no_tokenizer => 1, config => sub {
        $_[0]{rope_parameters} = { rope_theta => 10000,
                                   rope_type => 'dynamic', factor => 4 };
        $_[0]{max_position_embeddings} = 32;
    });

    @m = ('generate', '--model', "$Dir/dynamic", '--json', '--max-tokens', 1,
          '--prompt-ids', '-', '--logits');
    my ($each, $end) = map { object(run([@m, $_], encode_json($long))) }
                       qw/ all last /;
    is_deeply($each->{logits}[99], $end->{logits}[0], 'all: dynamic rope');
}


# the reference's logits and ids, by the plain command: its models were made
# in memory and cast as a whole, frequencies, too

sub golden {
    for my $path (sort glob "$MistralTiny::Golden/*") {
        my ($name) = $path =~ m{([^/]+)$};
        my $want = expected($name);
        my @m = ('generate', '--model', $path, '--prompt-ids', '-', '--json',
                 '--logits', 'last', '--max-tokens', 16);
        my $got = object(run([@m], encode_json($want->{prompt_ids})));

        is_deeply($got->{ids}, $want->{greedy_ids}, "$name: ids");
        cmp_ok(far($got, $want), '<=', 2e-4, "$name: logits");

        push @m, '--ignore-eos';

        my $exact = object(run([@m, '--rope', 'exact'],
                               " @{ $want->{prompt_ids} }\n"));

        if ($name =~ /f32/) {
            is_deeply($exact->{logits}, $got->{logits},
                      "$name: the same without a cast");
            next;
        }

        cmp_ok(far($exact, $want), '>', 2e-4, "$name: other without a cast");

        # one that can be served has a tokenizer: it is not cast

        checkpoint("$Dir/words", $name);
        my @w = map { $_ eq $path ? "$Dir/words" : $_ } @m;
        my $words = object(run([@w], join ',', @{ $want->{prompt_ids} }));
        is_deeply($words, $exact, "$name: nor with a tokenizer");
    }
}


sub far {
    my ($got, $want) = map { $_->{logits} ? $_->{logits}[0]
                                          : $_->{last_logits} } @_;
    my $far = 0;

    for (0 .. $#$want) {
        my $d = abs($got->[$_] - $want->[$_]);
        $far = $d if $d > $far;
    }

    return $far;
}


sub sampling {
    my @m = ('generate', '--model', $Model, '--chat', '--prompt',
             'Write a line about the sea.', '--json', '--max-tokens', 12);

    my $greedy = object(run([@m]))->{ids};
    my %seen;

    for my $seed (1 .. 4) {
        my @s = (@m, '--temperature', '1.5', '--seed', $seed);
        my $one = object(run([@s]))->{ids};
        $seen{"@$one"} = 1;

        is_deeply(object(run([@s]))->{ids}, $one, "seed $seed: the same")
            if $seed == 1;
    }

    cmp_ok(scalar keys %seen, '>', 1, 'seeds: answers differ');

    my @hot = (@m, '--temperature', '2', '--seed', 5);
    is_deeply(object(run([@hot, '--top-k', 1]))->{ids}, $greedy, '--top-k 1');
    is_deeply(object(run([@hot, '--min-p', 1]))->{ids}, $greedy, '--min-p 1');
    is_deeply(object(run([@hot, '--top-p', '0.000001']))->{ids}, $greedy,
              '--top-p 0.000001');
    is_deeply(object(run([@m, '--threads', 1]))->{ids}, $greedy,
              '--threads 1');

    my ($coarse, $exact) = map { object(run([@m, '--activations', $_])) }
                           16, 22;
    is_deeply($coarse->{ids}, $greedy, '--activations 16: the same ids');
    isnt("@{ $coarse->{logprobs} }", "@{ $exact->{logprobs} }",
         'but not the same numbers');
    is(run([@m, '--activations', 17])->{code}, 78, '--activations 17: code');

    my $r = run([@m, '--isa', 'z80']);
    is($r->{code}, 78, '--isa z80: exit code');
    like($r->{err}, qr/z80/, '--isa z80: sentence');

    {
        local $ENV{MISTRAL_ISA} = 'z80';
        like(run([@m])->{err}, qr/z80/, 'MISTRAL_ISA');
        is(run([@m, '--isa', 'avx2', '--max-tokens', 1])->{err} =~ /z80/, '',
           '--isa wins');
    }

    # portable C is slow, so little of it

    @m = ('generate', '--model', $Model, '--prompt', 'one two three four',
          '--json', '--max-tokens', 2);
    is_deeply(object(run([@m, '--isa', 'c']))->{ids}, object(run([@m]))->{ids},
              '--isa c');
}


# healthcheck against a server that gives one answer

sub serve {
    my ($answer, %how) = @_;

    my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')
        or die "listen: $!";
    my $port = $s->sockport;

    unlink "$Dir/request";

    my $pid = fork // die "fork: $!";

    if (!$pid) {
        my $c = $s->accept or POSIX::_exit(1);
        my $request = '';

        while ($request !~ /\r\n\r\n/) {
            sysread $c, $request, 4096, length $request or last;
        }

        spew("$Dir/request", $request);
        syswrite $c, $answer if length $answer;

        if ($how{hold}) {
            my $more;
            sysread $c, $more, 1;              # until the client is gone
        }

        POSIX::_exit(0);
    }

    my $r = run(['healthcheck', "http://127.0.0.1:$port/healthz?a=b"]);

    waitpid $pid, 0;
    $r->{request} = slurp("$Dir/request");

    return $r;
}


sub object {
    my ($r) = @_;
    my $j = eval { JSON::PP->new->decode($r->{out}) };

    if ($r->{code} ne '0' || ref $j ne 'HASH') {
        fail('one JSON object') or diag("$r->{code}: $r->{err}$r->{out}");
        return {};
    }

    return $j;
}
