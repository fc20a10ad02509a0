#!/usr/bin/perl

# make bench: its arithmetic, and the script beside a peer of a few lines
# that prints what is expected of llama.cpp's programs.  How fast anything is
# is no test.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use File::Temp qw/ tempdir /;
use JSON::PP;
use Test::More;

my $build = abs_path($ENV{BUILD} || 'build');
my $nginx = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';
my $dir = tempdir('mistral_bench.XXXXXX', TMPDIR => 1, CLEANUP => 1);

mkdir "$dir/bin";

arithmetic();
weight();
peer();
alone();
device();

done_testing();


# the clients of a device, with the null model, and a random one's making

sub device {
    my $user = (grep { defined getpwnam $_ } qw/ www-data nobody /)[0];
    my $out = `BUILD=$build /usr/bin/python3 t/bench/device.py \\
               --model null:rate=300,celsius=40 --device cpu --divide 16 \\
               --workers 2 --user $user --nginx $nginx --json $dir/device.json \\
               --only start,one,64 2>&1`;

    is($?, 0, 'bench/device.py: nothing failed') or diag $out;
    unlike($out, qr/FAILED/, 'bench/device.py: and says so');
    like($out, qr/^64 clients device_celsius +40 /m,
         'bench/device.py: the temperature');

    my $r = decode_json(read_file("$dir/device.json"));

    for my $key ('1 client out', '64 clients ttft_ms p99',
                 '64 clients tokens of a step')
    {
        cmp_ok($r->{$key}, '>', 0, "bench/device.py: $key");
    }

    write_file("$dir/shape.json", <<'JSON');
{"architectures": ["MistralForCausalLM"], "model_type": "mistral",
 "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
 "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1100,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON
    write_file("$dir/tokenizer", 'of whoever');
    $out = `BUILD=$build /usr/bin/python3 t/bench/device.py --make $dir/made \\
            --config $dir/shape.json --tokenizer $dir/tokenizer 2>&1`;
    is($?, 0, 'bench/device.py: a model') or diag $out;

    my $data = read_file("$dir/made/model.safetensors");
    my $size = unpack 'Q<', $data;
    my $head = decode_json(substr $data, 8, $size)->{'lm_head.weight'};
    my $rows = substr $data, 8 + $size + $head->{data_offsets}[0], 2 * 64 * 1100;

    my $silent = 2 * 64 * 1027;

    ok(substr($rows, 0, $silent) eq "\0" x $silent,
       'bench/device.py: silent tokens');
    unlike(substr($rows, $silent), qr/\0{128}/,
           'bench/device.py: and those of text');
}


# medians of what was found, ratios of medians, the worse of the overheads,
# which are medians of ratios: the machine's speed changes from pair to pair

sub arithmetic {
    my $r = python(<<'PYTHON');
engine.summary({
    'decode_1': ([300.0, 100.0, 200.0], [50.0, 10.0, 1000.0]),
    'start': ([10.0, 20.0], []),
    'overhead_1': ([99.0], [100.0]),
    'overhead_8': ([190.0, 100.0, 300.0], [200.0, 1000.0, 310.0]),
})
PYTHON

    is_deeply($r->{decode_1}, { ours => 200, peer => 50, ratio => 4,
                                unit => 'tok/s' }, 'medians');
    is_deeply($r->{start}, { ours => 15, peer => undef, ratio => undef,
                             unit => 'ms' }, 'without a peer');
    is_deeply($r->{overhead}, $r->{overhead_8}, 'the worse overhead');
    is($r->{overhead}{ratio}, 0.95, 'and its ratio');
}


# of a session: the engine gets ours, and a kernel that groups nothing, whose
# file is empty or missing, is no error

sub weight {
    my @files = map { "$dir/autogroup.$_" } qw/ self 7 /;
    my $weigh = "[setattr(engine, 'AUTOGROUP', '$dir/autogroup.%s'), "
                . 'engine.weigh(7)]';

    for my $case (['none'], ['', ''], ["/autogroup-3 nice 0\n", ''],
                  ["/autogroup-3 nice -5\n", '-5'])
    {
        my ($ours, $expected) = @$case;

        unlink @files;
        write_file($files[0], $ours) if defined $expected;
        write_file($files[1], '') if defined $expected;

        is_deeply(python($weigh), [undef, undef], 'a weight: no error');
        is(defined $expected ? read_file($files[1]) : undef, $expected,
           "a weight: the engine's");
    }
}


sub peer {
    program('llama-bench', <<'SHELL');
case "$*" in
*"-p 0 -d 128 -n 16,128"*) echo '{"avg_ts": 1}'; echo '{"avg_ts": 2.5}';;
*"-n 0 -p 512,512"*) echo '{"n_prompt": 512, "avg_ts": 1}'
                     echo '{"n_prompt": 512, "avg_ts": 7.5}';;
*) exit 1
esac
SHELL

    program('llama-batched-bench', <<'SHELL');
echo "no JSON"
[ "${12}" = 8,16 ] || exit 1
echo '{"pl": 8, "speed_tg": 12.5}'
echo '{"pl": 16, "speed_tg": 20}'
SHELL

    write_file("$dir/bin/llama-server", <<'PYTHON');
#!/usr/bin/python3
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(('127.0.0.1', int(sys.argv[sys.argv.index('--port')
                                                  + 1])),
                       Handler).serve_forever()
PYTHON
    chmod 0755, "$dir/bin/llama-server";

    is_deeply(python("engine.engine_peer('$dir', ['decode_1', 'prefill_512', "
                     . "'decode_8', 'decode_16'])"),
              { decode_1 => 2.5, prefill_512 => 7.5, decode_8 => 12.5,
                decode_16 => 20 },
              "what the peer's programs say, behind their warm-up");

    my ($said, $r) = bench('prefill_512,start', $dir);

    is_deeply([sort keys %$r], [qw/ prefill_512 start /],
              'the keys asked for') or diag $said;
    is($r->{prefill_512}{peer}, 7.5, "the peer's prefill_512");

    for my $k (sort keys %$r) {
        cmp_ok($r->{$k}{ours}, '>', 0, "$k: ours");
        cmp_ok(abs($r->{$k}{ratio} - $r->{$k}{ours} / $r->{$k}{peer}), '<',
               1e-6 * $r->{$k}{ratio}, "$k: ratio");
        like($said, qr/^$k +[\d.]+ +[\d.]+ +[\d.]+ /m, "$k: printed");
    }

    is($r->{start}{unit}, 'ms', 'unit');
}


sub alone {
    my ($said, $r) = bench('start', "$dir/none");

    like($said, qr/The peer is not built/, 'without a peer: said');
    is($r->{start}{peer}, undef, 'without a peer: none');
    cmp_ok($r->{start}{ours}, '>', 0, 'without a peer: ours');

    ($said) = bench('start,x', "$dir/none");
    like($said, qr/no such case: x/, 'an unknown case');
}


# a value of the script's

sub python {
    open my $out, '-|', '/usr/bin/python3', '-Bc', 'import json, sys; '
                        . "sys.path.insert(0, 't/bench'); import engine; "
                        . "print(json.dumps($_[0]))" or die "$!";

    return decode_json(join '', <$out>);
}


sub program {
    my ($name, $text) = @_;

    write_file("$dir/bin/$name", "#!/bin/sh\n$text");
    chmod 0755, "$dir/bin/$name";
}


sub write_file {
    my ($name, $text) = @_;

    open my $f, '>', $name or die "$name: $!";
    print $f $text;
    close $f;
}


sub read_file {
    my ($name) = @_;

    open my $f, '<', $name or die "$name: $!";
    local $/;
    return <$f> // '';
}


sub bench {
    my ($only, $folder) = @_;
    my $json = "$dir/report";

    unlink $json;
    local $ENV{BUILD} = $build;

    my $said = qx{/usr/bin/python3 t/bench/engine.py --only $only --rounds 1 \\
                  --peer $folder --json $json 2>&1};

    return ($said, -e $json ? decode_json(read_file($json)) : {});
}
