#!/usr/bin/perl

# What "nginx -t" says of mistral_* directives: every refusal is one sentence
# that names the value, and what is right passes.

use warnings;
use strict;

use Cwd qw/ abs_path /;
use File::Copy qw/ copy /;
use File::Temp qw/ tempdir /;
use POSIX ();
use Test::More;

my $build = abs_path($ENV{BUILD} || 'build');
my $nginx = $ENV{TEST_NGINX_BINARY} || '/usr/sbin/nginx';
my $prefix = tempdir(CLEANUP => 1);
my $gguf = "$build/models/SmolLM2-135M-Instruct.Q4_1.gguf";

chmod 0755, $prefix;
mkdir "$prefix/$_" for qw/ logs temp dir files /;
write_file("$prefix/files/a.gguf", '');
write_file("$prefix/text", "an answer\n");
write_file("$prefix/script", "[[1, 2], [3]]\n");
write_file("$prefix/high", "[[1, 2], [3, 49152]]\n");
write_file("$prefix/bad.gguf", "GGUF\3\0\0\0" . "\377" x 16);
write_file("$prefix/empty.gguf", '');
write_file("$prefix/block.conf", "max_batch 4;\n");
write_file("$prefix/not_elf", "#!/nowhere/sh\n");
write_file("$prefix/plain", "plain\n");
write_file("$prefix/huge", '');
truncate "$prefix/huge", 20_000_000_000;
POSIX::mkfifo("$prefix/fifo", 0600);
mkdir "$prefix/conf";
write_file("$prefix/conf/good.jinja", "{{ messages[0].content }}");
write_file("$prefix/conf/open.jinja", "a\n{% if messages %}b\n");
write_file("$prefix/conf/group.jinja", "{{ messages | groupby('role') }}");
write_file("$prefix/conf/long.jinja", ' ' x 262145);
write_file("$prefix/silent", "#!/bin/sh\nexit 3\n");
write_file("$prefix/loud", "#!/bin/sh\necho broken library >&2\nexit 1\n");
write_file("$prefix/killed", "#!/bin/sh\nkill -SEGV \$\$\n");
write_file("$prefix/other", "#!/bin/sh\necho ok layout=0123456789abcdef\n");
write_file("$prefix/hangs", "#!/bin/sh\nexec sleep 60\n");
chmod 0755, "$prefix/$_"
    for qw/ not_elf silent loud killed other hangs /;

my $said;                                      # by the last that failed
my $null = 'mistral_model n { path null:; }';
my $all = <<'END';
        path            null:rate=50.5,delay=10,len=7,text=text;
        device          cpu threads=2;
        dtype           auto;
        kv_cache        f32 size=24m;
        context         4096;
        max_batch       16384;
        prefill_chunk   64;
        alias           gpt-4o-mini some/Model-7B;
        reload          overlap;
        engine_timeout  5s;
END

# the model block

for my $ok ('path null:;',
            $all,
            'path null:rate=0,delay=0,len=0;',
            'path null:; device auto; dtype auto; kv_cache auto;
             context 100; max_batch auto; prefill_chunk auto;',
            'path null:; kv_cache auto size=90%; engine_timeout 1m;',
            'path null:; device cpu; kv_cache f32 size=1g;',
            'path null:; device cpu activations=16;',
            'path null:; device cpu activations=22 threads=64;',
            'path null:; kv_cache f16;',
            'path null:; kv_cache q8 size=64m;',
            'path null:; include block.conf;',
            'path null:; device cuda;',
            'path null:; device cuda:0; dtype bf16; kv_cache bf16 size=90%;
             weight_layouts 2; batch_invariant on;',
            'path null:; device cuda:12; dtype fp8; kv_cache fp8;
             weight_layouts auto;
             batch_invariant off;',
            'path null:; device cuda:0; dtype int4; tuning_cache off;',
            'path null:; device cuda:0;
             tuning_cache no/such/dir;',
            'path null:; device cpu; tuning_cache off;',
            'path null:; device cpu; weight_layouts auto; batch_invariant on;',
            'path null:; batch_invariant on;',
            "path null:rate=9,text=script,len=1,tokenizer=$gguf;",
            'path null:; reload drain;',
            'path null:; prefill_chunk 65536; kv_cache auto size=1m;',
            'path null:; alias org/A-1:tag@v+x_.y ' . 'x' x 255 . ';',
            'path null:; engine_timeout 2s;',
            "path $gguf;",
            "path $gguf; context 1024;",
            "path $gguf; chat_template conf/good.jinja;",
            "path $gguf; prefill_chunk 16;",
            "path $gguf; rope_scaling linear factor=2; context 16384;",
            "path $gguf; rope_scaling llama3 factor=1.5 low_freq_factor=2"
            . " high_freq_factor=3 original=8192;",
            "path $gguf; rope_scaling yarn factor=4 beta_fast=16 beta_slow=2"
            . " attention_factor=1.5;",
            "path $gguf; prefill_chunk 1; max_batch 1;")
{
    passes(model($ok), "mistral_model { $ok }");
}

for my $t (
    [ '', 'no "path" is given in mistral_model "m"' ],
    [ 'device cpu;', 'no "path" is given' ],
    [ 'path null:; path null:;', '"path" directive is duplicate' ],
    [ 'path null:; paths x;', 'unknown directive "paths" in mistral_model' ],
    [ 'path a b;', 'invalid number of arguments in "path" directive' ],
    [ 'path null:; alias;', 'invalid number of arguments in "alias"' ],
    [ 'path null:; sub { }', 'unexpected "{"' ],
    [ 'path "";', 'invalid value "" in "path"' ],
    [ 'path no.gguf;',
      "mistral_model \"m\": $prefix/no.gguf: cannot be opened: "
      . "No such file or directory" ],
    [ 'path dir;', "$prefix/dir: a directory without config.json" ],
    [ 'path files;', "$prefix/files: a directory without config.json, but with "
                     . "a.gguf: name that file" ],
    [ 'path /dev/null;', 'mistral_model "m": /dev/null: no regular file' ],
    [ 'path bad.gguf;', 'bad.gguf' ],
    [ 'path empty.gguf;', 'empty.gguf' ],
    [ 'path text;', "mistral_model \"m\": " ],
    [ 'path ' . 'x' x 1100 . ';', 'is longer than 1023 bytes' ],
    [ "path $gguf; context 8193;", "context 8193 is above the model's 8192" ],
    [ "path $gguf; prefill_chunk 15;", 'prefill_chunk 15 is below max_batch 16' ],
    [ "path $gguf; prefill_chunk 99; max_batch 100;",
      'prefill_chunk 99 is below max_batch 100' ],
    [ "path $gguf; max_batch 1025;", 'max_batch 1025 is above 1024' ],

    [ "path $gguf; rope_scaling yarn;",
      'invalid number of arguments in "rope_scaling"' ],
    [ "path $gguf; rope_scaling ntk factor=2;",
      'invalid value "ntk" in "rope_scaling"' ],
    [ "path $gguf; rope_scaling yarn original=2;", 'needs a parameter "factor="' ],
    [ "path $gguf; rope_scaling yarn factor=x;", 'invalid parameter "factor=x"' ],
    [ "path $gguf; rope_scaling yarn factor=0;", 'invalid parameter "factor=0"' ],
    [ "path $gguf; rope_scaling yarn factor=2 factor=2;",
      'duplicate parameter "factor=2"' ],
    [ "path $gguf; rope_scaling linear factor=2 beta_fast=3;",
      'parameter "beta_fast=3" is none of rope_scaling "linear"' ],
    [ "path $gguf; rope_scaling linear factor=0.5;",
      'rope factor is 0.5, limits are 1 and 1024' ],
    [ "path $gguf; rope_scaling linear factor=2; context 16385;",
      "context 16385 is above the model's 16384" ],
    [ "path $gguf; rope_scaling dynamic factor=2 original=100; context 201;",
      "context 201 is above the model's 200" ],
    [ "path $gguf; experts_per_token 2;",
      '2 experts for a token: the model has none' ],
    [ 'path null:; experts_per_token 0;', 'invalid value "0"' ],
    [ 'path null:; experts_per_token 2;',
      '"experts_per_token" is nothing that the null model has' ],
    [ "path $gguf; chat_template '';", 'invalid value "" in "chat_template"' ],
    [ "path $gguf; chat_template conf/gone;", "\"$prefix/conf/gone\" failed" ],
    [ "path $gguf; chat_template conf;", "$prefix/conf\" must be a file of" ],
    [ "path $gguf; chat_template conf/long.jinja;",
      'long.jinja" must be a file of at most 262144 bytes' ],
    [ "path $gguf; chat_template conf/open.jinja;",
      'chat_template "conf/open.jinja": line 2: ' ],
    [ "path $gguf; chat_template conf/group.jinja;", 'groupby' ],
    [ "path $gguf; chat_template mistral-v7;", '"[INST]"' ],
    [ "path $gguf; chat_template mistral-v8;", 'version 8' ],
    [ "path $gguf; chat_template mistral-v3-x;", 'mistral-v3-x' ],
    [ 'path null:; chat_template conf/good.jinja;',
      '"chat_template" needs "tokenizer=" in the path of the null model' ],
    [ 'path null:; rope_scaling yarn factor=2;',
      '"rope_scaling" is nothing that the null model has' ],

    [ 'path null:speed=1;', 'invalid parameter "speed=1" in path' ],
    [ 'path null:rate=;', 'invalid parameter "rate="' ],
    [ 'path null:rate=-1;', 'invalid parameter "rate=-1"' ],
    [ 'path null:rate=inf;', 'invalid parameter "rate=inf"' ],
    [ 'path null:rate=0x10;', 'invalid parameter "rate=0x10"' ],
    [ 'path null:rate=1e9;', 'invalid parameter "rate=1e9"' ],
    [ 'path null:rate=1.2.3;', 'invalid parameter "rate=1.2.3"' ],
    [ 'path null:rate=.;', 'invalid parameter "rate=."' ],
    [ 'path null:delay=1.5;', 'invalid parameter "delay=1.5"' ],
    [ 'path null:delay=99999999;', 'invalid parameter "delay=99999999"' ],
    [ 'path null:len=-1;', 'invalid parameter "len=-1"' ],
    [ 'path null:len=4294967296;', 'invalid parameter "len=4294967296"' ],
    [ 'path null:len=1,;', 'empty parameter in path' ],
    [ 'path null:celsius=201;', 'invalid parameter "celsius=201"' ],
    [ 'path null:celsius=x;', 'invalid parameter "celsius=x"' ],
    [ 'path null:,len=1;', 'empty parameter in path' ],
    [ 'path null:text=gone;', 'cannot open' ],
    [ 'path null:text=/proc/version;',
      'the text of the null model has 0 bytes, must be 1 .. 268435456' ],
    [ 'path null:text=huge;',
      'the text of the null model has 20000000000 bytes' ],
    [ 'path null:text=text,text=text;', 'duplicate parameter "text=text"' ],
    [ 'path null:rate=1,len=2,rate=1;',
      'duplicate parameter "rate=1" in path' ],
    [ 'path null:len=1,len=2;', 'duplicate parameter "len=2" in path' ],
    [ 'path null:tokenizer=x;', 'cannot open "' . $prefix . '/x"' ],
    [ "path null:tokenizer=$gguf;",
      '"tokenizer=" of the null model needs "text="' ],
    [ "path null:tokenizer=$gguf,text=text;", 'the script is no JSON' ],
    [ "path null:tokenizer=$gguf,text=high;",
      'entry 1 has no token id below 49152 at 1' ],
    [ 'path null:text=script,tokenizer=plain;',
      'plain: is no tokenizer by its name' ],
    [ 'path null:text=script,tokenizer=dir;', 'neither tekken.json' ],
    [ "path null:tokenizer=$gguf,tokenizer=$gguf,text=script;",
      'duplicate parameter "tokenizer=' ],

    [ 'path null:; device gpu;',
      'invalid value "gpu" in "device" directive, it must be "auto", "cpu", '
      . '"cuda" or "cuda:N"' ],
    [ 'path null:; device cuda:;', 'invalid value "cuda:" in "device"' ],
    [ 'path null:; device cuda:x;', 'invalid value "cuda:x" in "device"' ],
    [ 'path null:; device cuda:-1;', 'invalid value "cuda:-1" in "device"' ],
    [ 'path null:; device cuda:1000;', 'invalid value "cuda:1000" in "dev' ],
    [ 'path null:; device cuda0;', 'invalid value "cuda0" in "device"' ],
    [ 'path null:; device CUDA:0;', 'invalid value "CUDA:0" in "device"' ],
    [ 'path null:; device cuda:0,1;',
      'device "cuda:0,1": one model on several devices is not supported' ],
    [ 'path null:; device cuda:0 threads=2;', 'invalid parameter "threads=2"' ],
    [ 'path null:; device cpu threads=0;', 'invalid value "0" in "device"' ],
    [ 'path null:; device cpu threads=x;', 'a number from 1 to 64' ],
    [ 'path null:; device auto threads=1;', 'invalid parameter "threads=1"' ],
    [ 'path null:; device cpu cores=1;', 'invalid parameter "cores=1"' ],
    [ 'path null:; device cpu activations=17;',
      'invalid parameter "activations=17"' ],
    [ 'path null:; device cpu activations=16 activations=22;',
      'invalid parameter "activations=22"' ],
    [ 'path null:; device cpu threads=1 threads=2;',
      'invalid parameter "threads=2"' ],
    [ 'path null:; device auto activations=16;',
      'invalid parameter "activations=16"' ],
    [ 'path null:; device cpu threads=1 activations=16 cores=1;',
      'invalid number of arguments in "device"' ],
    [ 'path null:; dtype bf16;',
      '"dtype bf16" of mistral_model "m" is not for device "auto", it needs '
      . '"device cuda:N"' ],
    [ 'path null:; device cpu; dtype fp8;',
      '"dtype fp8" of mistral_model "m" is not for device "cpu", it needs' ],
    [ 'path null:; device cpu; dtype int4;',
      '"dtype int4" of mistral_model "m" is not for device "cpu", it needs' ],
    [ 'path null:; dtype fp4;', '"dtype fp4" is not supported by this build' ],
    [ 'path null:; dtype x;',
      'invalid value "x" in "dtype" directive, it must be auto | bf16 | fp8 | '
      . 'int4 in' ],
    [ 'path null:; dtype bf16 fp8;', 'invalid number of arguments in "dtype"' ],
    [ 'path null:; kv_cache bf16;',
      '"kv_cache bf16" of mistral_model "m" is not for device "auto"' ],
    [ 'path null:; device cuda:1; kv_cache f32;',
      '"kv_cache f32" of mistral_model "m" is not for device "cuda:1"' ],
    [ 'path null:; device cuda; kv_cache q8 size=1g;',
      '"kv_cache q8" of mistral_model "m" is not for device "cuda:0"' ],
    [ 'path null:; weight_layouts 0;', 'invalid value "0" in "weight_layouts"' ],
    [ 'path null:; weight_layouts 3;', 'a number from 1 to 2' ],
    [ 'path null:; weight_layouts two;', 'a number from 1 to 2' ],
    [ 'path null:; device cpu; weight_layouts 1;',
      '"weight_layouts 1" of mistral_model "m" is not for device "cpu", it '
      . 'needs "device cuda:N"' ],
    [ 'path null:; weight_layouts 2;',
      '"weight_layouts 2" of mistral_model "m" is not for device "auto", it '
      . 'needs' ],
    [ 'path null:; device cpu; tuning_cache dir;',
      "\"tuning_cache $prefix/dir\" of mistral_model \"m\" is not for device "
      . '"cpu", it needs "device cuda:N"' ],
    [ 'path null:; device cuda:0; tuning_cache "";',
      'invalid value "" in "tuning_cache" directive, it must be a directory' ],
    [ 'path null:; device cuda:0; tuning_cache ' . 'x' x 1100 . ';',
      'tuning_cache is longer than 1023 bytes' ],
    [ 'path null:; device cuda:0; tuning_cache a; tuning_cache b;',
      '"tuning_cache" directive is duplicate' ],
    [ 'path null:; thermal_limit 0;', 'invalid value "0" in "thermal_limit"' ],
    [ 'path null:; thermal_limit 201;', 'a number from 1 to 200' ],
    [ 'path null:; thermal_limit hot;', 'a number from 1 to 200' ],
    [ 'path null:; batch_invariant yes;',
      'invalid value "yes" in "batch_invariant" directive, it must be "on" '
      . 'or "off"' ],
    [ 'path null:; batch_invariant on; batch_invariant on;',
      '"batch_invariant" directive is duplicate' ],
    [ 'path null:; kv_cache int4;',
      '"kv_cache int4" is not supported by this build' ],
    [ 'path null:; kv_cache f33;', 'invalid value "f33" in "kv_cache"' ],
    [ 'path null:; kv_cache auto size=;', 'invalid parameter "size="' ],
    [ 'path null:; kv_cache auto size=0;', 'invalid value "size=0"' ],
    [ 'path null:; kv_cache auto size=101%;',
      'invalid value "size=101%" in "kv_cache" directive, it must be "size=" '
      . 'with 1m or more, or with 1% to 100%' ],
    [ 'path null:; kv_cache size=10%;',
      'invalid value "size=10%" in "kv_cache" directive, it must be f32 | f16 '
      . '| bf16 | fp8 | q8 | auto, and "size=" after it in' ],
    [ 'path null:; kv_cache auto size=%;', 'invalid value "size=%"' ],
    [ 'path null:; kv_cache auto size=1q;', 'invalid value "size=1q"' ],
    [ 'path null:; kv_cache auto blocks=1;', 'invalid parameter "blocks=1"' ],
    [ 'path null:; kv_cache auto size=1023k;', 'invalid value "size=1023k"' ],
    [ 'path null:; context 0;', 'a number from 1 to 1048576' ],
    [ 'path null:; context auto;', 'invalid value "auto" in "context"' ],
    [ 'path null:; max_batch 16385;', 'a number from 1 to 16384' ],
    [ 'path null:; prefill_chunk 0;', 'invalid value "0" in "prefill_chunk"' ],
    [ 'path null:; prefill_chunk 65537;', 'a number from 1 to 65536' ],
    [ 'path null:; reload x;', 'invalid value "x" in "reload"' ],
    [ 'path null:; engine_timeout 1s;', 'invalid engine timeout "1s"' ],
    [ 'path null:; engine_timeout x;', 'invalid engine timeout "x"' ],
    [ 'path null:; alias m;', 'alias "m" is already a name of mistral_model' ],
    [ 'path null:; alias a b a;', 'alias "a" is already a name' ],
    [ 'path null:; alias ' . 'x' x 256 . ';', 'is longer than 255 bytes' ],
    [ 'path null:; alias "a b";', 'invalid model name "a b"' ],
    [ 'path null:; alias "";', 'invalid model name ""' ])
{
    fails(model($t->[0]), $t->[1]);
}

# a device needs its library beside the program; what it is, and whether there
# is a driver, finds the engine

mkdir "$prefix/bin";
link "$build/mistral", "$prefix/bin/mistral"
    or copy("$build/mistral", "$prefix/bin/mistral") or die $!;
chmod 0755, "$prefix/bin/mistral";

my $bin = "mistral_program $prefix/bin/mistral; ";

fails($bin . model("path $gguf; device cuda:0;"),
      "device \"cuda:0\" of mistral_model \"m\" needs "
      . "\"$prefix/bin/libmst_cuda.so\", which \"make cuda\" builds");
passes($bin . model("path $gguf; device auto;"), 'auto without a library');
write_file("$prefix/bin/libmst_cuda.so", 'what nginx does not open');
passes($bin . model("path $gguf; device cuda:0; prefill_chunk 16;"),
       'device cuda:0 with a library');

SKIP: {
    skip 'there is a driver', 1 if -e '/dev/nvidiactl';

    like((check($bin . model("path $gguf; device cuda:0;")))[1],
         qr{\[warn\]\ device\ "cuda:0"\ of\ mistral_model\ "m":
            \ there\ is\ no\ "/dev/nvidiactl",\ and\ no\ answer\ before
            \ there\ is\ a\ driver\ \(2:}x, 'no driver: a warning');
}

# a cache of measurements is made; where it cannot be it is a warning

tuning('', 'made');
ok(-d "$prefix/made", 'tuning_cache makes a directory');
is((stat "$prefix/made")[2] & 0777, 0700, 'for the engine alone');
tuning('', 'made');
tuning('cannot be created, so that each start measures (2: No such file or'
       . ' directory)', 'no/such/dir');
tuning('is no directory, so that each start measures', 'plain');

SKIP: {
    skip 'another user is for root to name', 3 if $> != 0;

    my ($user, $uid) = map { scalar getpwuid($_), $_ } 65534;

    is((stat "$prefix/made")[4], 0 + `id -u nobody`, 'of the user');
    chmod 0755, "$prefix/dir";
    tuning("is not writable by user \"$user\", so that each start measures",
           'dir');
    chown $uid, -1, "$prefix/dir";
    tuning('', 'dir');
    chown 0, -1, "$prefix/dir";
}

fails('mistral_model "a/b" { path null:; }',
      'invalid model name "a/b", it must be of letters, digits and "._-" in');
fails('mistral_model "$a" { path null:; }', 'invalid model name "$a"');
fails('mistral_model ' . 'x' x 64 . ' { path null:; }',
      'is longer than 63 bytes');
passes('mistral_model ' . 'x' x 63 . ' { path null:; }', 'name of 63 bytes');
fails('mistral_model { path null:; }', 'invalid number of arguments');
fails("$null $null", 'duplicate mistral_model name "n"');
fails("$null mistral_model o { path null:; alias n; }",
      'alias "n" is already a name of mistral_model "n"');
fails('mistral_model o { path null:; alias n; } ' . $null,
      'duplicate mistral_model name "n"');
fails('mistral_model o { path null:; alias a; }
       mistral_model p { path null:; alias a; }',
      'alias "a" is already a name of mistral_model "o"');
fails("server { $null }", '"mistral_model" directive is not allowed here');

# locations

my $d = 'server { location /';

passes("$null $d { mistral_pass n; } }", 'mistral_pass');
passes("$d { mistral_pass n; } } $null", 'a block behind its location');
passes("mistral_model o { path null:; alias a/b; } $d { mistral_pass a/b; } }",
       'mistral_pass ALIAS');
passes("$null $d { mistral_pass \$arg_m; } }", 'mistral_pass $variable');
passes("$null $d { if (\$arg_a) { mistral_pass n; } } }",
       'mistral_pass in if');
passes("$null $d { mistral_pass n; if (\$arg_a) { set \$x 1; } } }",
       'if beside mistral_pass');
passes("$null $d { mistral_pass n; limit_except POST { deny all; } } }",
       'limit_except beside mistral_pass');
passes("$d { mistral_health live; } }", 'mistral_health live, no model');
passes("$null $d { mistral_health ready; } }", 'mistral_health ready');
passes("$null $d { mistral_status json; } }", 'mistral_status json');
passes("$null $d { mistral_status prometheus; } }",
       'mistral_status prometheus');
passes("$null $d { mistral_status prometheus vllm; } }",
       'mistral_status prometheus vllm');
passes("$d { mistral_status prometheus vllm; } }",
       'mistral_status prometheus, no model');
passes("$null $d { mistral_health decode; } }", 'mistral_health decode');
passes("$null mistral_queue 4; server { mistral_queue 5 timeout=1s;
        location / { mistral_queue 0; mistral_pass n; }
        location /t { mistral_queue 1 tokens=200k timeout=2s; }
        location /m { mistral_queue 1 timeout=2s tokens=1m; } }",
       'mistral_queue at each level');

for my $t (
    [ 'mistral_pass x;', 'unknown mistral_model "x" in ' ],
    [ 'mistral_pass "";', 'invalid value ""' ],
    [ 'mistral_pass;', 'invalid number of arguments' ],
    [ 'mistral_pass $nothing;', 'unknown "nothing" variable' ],
    [ 'mistral_pass n; mistral_pass n;',
      '"mistral_pass" directive is duplicate' ],
    [ 'mistral_pass n; mistral_health live;',
      '"mistral_health" cannot be used in a location that has another' ],
    [ 'mistral_status json; mistral_pass n;',
      '"mistral_pass" cannot be used in a location that has another' ],
    [ 'proxy_pass http://127.0.0.1:1; mistral_pass n;',
      '"mistral_pass" cannot be used in a location that has another' ],
    [ 'mistral_pass n; proxy_pass http://127.0.0.1:1;',
      '"mistral_pass" cannot be used in a location that has another' ],
    [ 'mistral_health live; stub_status;',
      '"mistral_health" cannot be used in a location that has another' ],
    [ 'mistral_health;', 'invalid number of arguments' ],
    [ 'mistral_health x;', 'it must be "live", "ready" or "decode"' ],
    [ 'mistral_health live; mistral_health ready;',
      '"mistral_health" directive is duplicate' ],
    [ 'mistral_status;', 'invalid number of arguments' ],
    [ 'mistral_status xml;', 'it must be "json" or "prometheus"' ],
    [ 'mistral_status json vllm;', 'invalid parameter "vllm"' ],
    [ 'mistral_status prometheus x;', 'invalid parameter "x"' ],
    [ 'mistral_status prometheus vllm vllm;', 'invalid parameter "vllm"' ],
    [ 'mistral_status json; mistral_status json;',
      '"mistral_status" directive is duplicate' ],
    [ 'mistral_queue;', 'invalid number of arguments' ],
    [ 'mistral_queue x;', 'invalid queue size "x"' ],
    [ 'mistral_queue -1;', 'invalid queue size "-1"' ],
    [ 'mistral_queue 1000001;', 'a number from 0 to 1000000' ],
    [ 'mistral_queue 1 timeout=x;',
      'invalid value "timeout=x" in "mistral_queue" directive, it must be a '
      . 'time' ],
    [ 'mistral_queue 1 timeout=0;', 'invalid value "timeout=0"' ],
    [ 'mistral_queue 1 timeout=1s timeout=2s;', 'duplicate parameter' ],
    [ 'mistral_queue 1 tokens=;', 'invalid value "tokens="' ],
    [ 'mistral_queue 1 tokens=0;',
      'invalid value "tokens=0" in "mistral_queue" directive, it must be a '
      . 'number of tokens' ],
    [ 'mistral_queue 1 tokens=k;', 'invalid value "tokens=k"' ],
    [ 'mistral_queue 1 tokens=-1;', 'invalid value "tokens=-1"' ],
    [ 'mistral_queue 1 tokens=1g;', 'invalid value "tokens=1g"' ],
    [ 'mistral_queue 1 tokens=10000000000;',
      'invalid value "tokens=10000000000"' ],
    [ 'mistral_queue 1 tokens=1 tokens=2;', 'duplicate parameter' ],
    [ 'mistral_queue 1 x=1;',
      'invalid parameter "x=1" in "mistral_queue" directive, it must be' ],
    [ 'mistral_preread maybe;',
      'invalid value "maybe" in "mistral_preread" directive, it must be "off", '
      . '"on" or "auth"' ],
    [ 'mistral_preread on; mistral_preread on;', 'is duplicate' ],
    [ 'mistral_queue 1; mistral_queue 2;',
      '"mistral_queue" directive is duplicate' ])
{
    fails("$null $d { $t->[0] } }", $t->[1]);
}

fails("server { mistral_pass n; }", 'directive is not allowed here');

# pressure and streams

passes("$null mistral_kv_reserve full; mistral_priority 7 preempt;
        mistral_fair \$remote_addr weight=5; mistral_deadline ttft=2s;
        mistral_retry_after auto; mistral_shed_status 429;
        mistral_sse_keepalive 5s; mistral_slow_client buffer=512k;
        mistral_first_token_timeout 1m; mistral_token_timeout 500ms;
        mistral_max_duration 1h; mistral_ignore_client_abort on;
        server { mistral_kv_reserve prompt; mistral_priority \$arg_p;
        mistral_fair off; mistral_deadline off; mistral_retry_after off;
        mistral_sse_keepalive off; mistral_slow_client pause;
        mistral_first_token_timeout off; mistral_token_timeout off;
        mistral_max_duration off; mistral_ignore_client_abort off;
        location / { mistral_kv_reserve 0%; mistral_priority -8;
        mistral_fair \$arg_k weight=\$arg_w; mistral_retry_after 10s;
        mistral_deadline ttft=\${arg_t}ms; mistral_slow_client close;
        mistral_pass n; } }", 'pressure and streams at each level');

for my $t (
    [ 'mistral_kv_reserve 101%;', 'invalid value "101%" in "mistral_kv_reserve"' ],
    [ 'mistral_kv_reserve 50;', 'it must be "prompt", "full" or a part' ],
    [ 'mistral_kv_reserve %;', 'invalid value "%"' ],
    [ 'mistral_kv_reserve;', 'invalid number of arguments' ],
    [ 'mistral_kv_reserve full; mistral_kv_reserve full;', 'is duplicate' ],
    [ 'mistral_priority 8;', 'invalid class "8"' ],
    [ 'mistral_priority -9;', 'it must be from -8 to 7 or a variable' ],
    [ 'mistral_priority 1 always;', 'invalid parameter "always"' ],
    [ 'mistral_priority "";', 'invalid value ""' ],
    [ 'mistral_priority $nothing;', 'unknown "nothing" variable' ],
    [ 'mistral_priority 1; mistral_priority 2;', 'is duplicate' ],
    [ 'mistral_fair $remote_addr weight=0;', 'invalid weight "0"' ],
    [ 'mistral_fair $remote_addr weight=1001;', 'from 1 to 1000' ],
    [ 'mistral_fair $remote_addr 5;', 'invalid parameter "5"' ],
    [ 'mistral_fair "";', 'invalid value ""' ],
    [ 'mistral_fair a; mistral_fair b;', 'is duplicate' ],
    [ 'mistral_deadline 2s;',
      'invalid parameter "2s" in "mistral_deadline" directive, it must be '
      . '"ttft=time", "ttft=$variable" or "off"' ],
    [ 'mistral_deadline ttft=soon;', 'invalid time "soon"' ],
    [ 'mistral_deadline ttft=0;', 'invalid time "0"' ],
    [ 'mistral_deadline ttft=;', 'invalid value ""' ],
    [ 'mistral_deadline off; mistral_deadline off;', 'is duplicate' ],
    [ 'mistral_retry_after 0;', 'invalid value "0" in "mistral_retry_after"' ],
    [ 'mistral_retry_after 500ms;', 'a time from a second to a day' ],
    [ 'mistral_retry_after 1000d;', 'a time from a second to a day' ],
    [ 'mistral_retry_after 1; mistral_retry_after 1;', 'is duplicate' ],
    [ 'mistral_shed_status 200;', 'invalid status "200"' ],
    [ 'mistral_shed_status 444;', 'from 400 to 599, but not 444, which '
                                  . 'sends no answer, nor 499 in ' ],
    [ 'mistral_shed_status 499;', 'from 400 to 599' ],
    [ 'mistral_shed_status 503; mistral_shed_status 503;', 'is duplicate' ],
    [ 'mistral_sse_keepalive 0;', 'invalid value "0" in "mistral_sse_keepalive"' ],
    [ 'mistral_token_timeout never;', 'it must be a time or "off"' ],
    [ 'mistral_first_token_timeout 1000000h;', 'invalid value "1000000h"' ],
    [ 'mistral_max_duration 1s; mistral_max_duration off;', 'is duplicate' ],
    [ 'mistral_slow_client buffer=0;', 'invalid parameter "buffer=0"' ],
    [ 'mistral_slow_client buffer=1m;', 'of at most 512k' ],
    [ 'mistral_slow_client wait;', 'it must be "pause", "close" or' ],
    [ 'mistral_slow_client pause; mistral_slow_client pause;', 'is duplicate' ],
    [ 'mistral_ignore_client_abort 1;', 'it must be "on" or "off"' ])
{
    fails("$null server { location / { $t->[0] } }", $t->[1]);
}

# limits and quotas

my $z = 'mistral_limit_zone $arg_k zone=z:1m rate=10t/s;';
my $q = 'mistral_quota_zone $arg_k zone=q:1m quota=5k window=1d;';

for my $ok ('mistral_limit_zone $arg_k zone=z:32k rate=500t/s;',
            'mistral_limit_zone $arg_k zone=z:10m rate=20kt/m burst=1m;',
            'mistral_limit_zone $arg_k rate=1mt/h zone=z:1m;',
            'mistral_limit_zone $arg_k$arg_l zone=z:1m rate=$arg_r;',
            'mistral_limit_zone $arg_k zone=z:1m rate=${arg_r}t/m burst=$arg_b;',
            'map $arg_t $tpm { gold 200k; internal ""; default 20k; }
             map $arg_t $rate { internal ""; default "${tpm}t/m"; }
             mistral_limit_zone $arg_k zone=z:1m rate=$rate burst=30k;',
            'mistral_quota_zone $arg_k zone=q:1m quota=$arg_q window=1s;',
            'mistral_quota_zone $arg_k zone=q:1m quota=1 window=month;',
            'mistral_quota_zone $arg_k zone=q:1m quota=5k window=1h
                                align=calendar state=logs/state;',
            'mistral_quota_zone $arg_k zone=q:1m quota=5k window=30d;',
            "$z $q mistral_limit zone=z; mistral_quota zone=q;",
            'mistral_limit zone=z; ' . $z,
            "$z mistral_limit zone=z count=uncached reserve=max_tokens;",
            "$z mistral_limit zone=z count=completion reserve=prompt;",
            "$z mistral_limit zone=z reserve=20k overrun=finish;",
            "$z mistral_limit zone=z reserve=0 overrun=pace;",
            "$z mistral_limit zone=z reserve=prompt overrun=stop;",
            "$q mistral_quota zone=q reserve=5 overrun=stop;",
            'mistral_limit_zone $arg_k zone=z:1m rate=1t/s;
             mistral_limit_zone $arg_k zone=y:1m rate=1t/s;
             mistral_limit zone=z; mistral_limit zone=y;',
            'mistral_limit_status 503; mistral_limit_dry_run on;')
{
    passes("$null $ok $d { mistral_pass n; } }", $ok);
}

for my $t (
    [ 'mistral_limit_zone $arg_k zone=z:1m;', 'invalid number of arguments' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m burst=5;',
      '"mistral_limit_zone" directive has no "rate" parameter' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m burst=5 burst=6;',
      'duplicate parameter "burst=6"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=1t/s x=1;',
      'invalid parameter "x=1"' ],
    [ 'mistral_limit_zone $arg_k rate=1t/s burst=5;',
      'invalid value "zone=", it must be NAME:SIZE' ],
    [ 'mistral_limit_zone $arg_k zone=z rate=1t/s;',
      'invalid value "zone=z", it must be NAME:SIZE' ],
    [ 'mistral_limit_zone $arg_k zone=:1m rate=1t/s;', 'invalid value "zone=:1m"' ],
    [ 'mistral_limit_zone $arg_k zone=z:x rate=1t/s;', 'the size is none' ],
    [ 'mistral_limit_zone $arg_k zone=z:31k rate=1t/s;',
      'the zone is too small' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=1r/s;',
      'invalid value "rate=1r/s", it must be like "500t/s"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=0t/s;', '"rate=0t/s"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=-1t/s;', '"rate=-1t/s"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=5;', '"rate=5"' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=1t/s burst=0;',
      'invalid value "burst=0", it must be a number of tokens' ],
    [ 'mistral_limit_zone $arg_k zone=z:1m rate=1t/s burst=1g;', '"burst=1g"' ],
    [ 'mistral_limit_zone $nothing zone=z:1m rate=1t/s;',
      'unknown "nothing" variable' ],
    [ "$z $z", 'zone "z" is already bound to a key' ],
    [ "$z mistral_quota_zone \$arg_k zone=z:1m quota=1 window=1h;",
      'zone "z" is already bound to a key' ],
    [ 'limit_req_zone $arg_k zone=z:1m rate=1r/s; ' . $z,
      'is already declared for a different use' ],

    [ 'mistral_quota_zone $arg_k;', 'invalid number of arguments' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m window=1h;',
      '"mistral_quota_zone" directive has no "quota" parameter' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1;',
      '"mistral_quota_zone" directive has no "window" parameter' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=0 window=1h;', '"quota=0"' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=x window=1h;', '"quota=x"' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1y;',
      'invalid value "window=1y", it must be "month" or a time' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=367d;', '"window=367d"' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=30d align=calendar;',
      'invalid value "window=30d", no calendar has it' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h align=x;',
      'invalid value "align=x", it must be "calendar"' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=;',
      'invalid value "state=", it must be the name of a file' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=logs/;',
      'it must be the name of a file' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=logs/x;
       mistral_quota_zone $arg_k zone=r:1m quota=1 window=1h state=logs/x;',
      'invalid value "state=logs/x", it is the state of another zone' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=dir;',
      "\"$prefix/dir\", the state of mistral_quota_zone \"q\", is no regular"
      . ' file' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=fifo;',
      "\"$prefix/fifo\", the state of mistral_quota_zone \"q\", is no regular"
      . ' file' ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h state=plain/x;',
      "\"$prefix/plain\" of mistral_quota_zone \"q\" is no directory" ],
    [ 'mistral_quota_zone $arg_k zone=q:1m quota=1 window=1h
       state=no/where/x;', "cannot create directory \"$prefix/no/where\"" ],

    [ 'mistral_limit;', 'invalid number of arguments' ],
    [ 'mistral_limit count=total;', '"mistral_limit" must have a "zone"' ],
    [ 'mistral_limit zone=;', '"mistral_limit" must have a "zone"' ],
    [ 'mistral_limit zone=x;', 'unknown mistral_limit_zone "x" in ' ],
    [ "$q mistral_limit zone=q;", 'unknown mistral_limit_zone "q" in ' ],
    [ "$z mistral_quota zone=z;", 'unknown mistral_quota_zone "z" in ' ],
    [ "$z mistral_limit zone=z; mistral_limit zone=z;",
      '"mistral_limit" with "zone=z" is duplicate' ],
    [ "$z mistral_limit zone=z burst=5;",
      'invalid parameter "burst=5" in "mistral_limit" directive, it belongs to '
      . '"mistral_limit_zone"' ],
    [ "$q mistral_quota zone=q state=x;",
      'it belongs to "mistral_quota_zone"' ],
    [ "$q mistral_quota zone=q x=5;",
      'invalid parameter "x=5" in "mistral_quota" directive in' ],
    [ "$z mistral_limit zone=z count=x;", 'invalid value "count=x"' ],
    [ "$z mistral_limit zone=z reserve=x;", 'invalid value "reserve=x"' ],
    [ "$z mistral_limit zone=z reserve=10000m;", '"reserve=10000m"' ],
    [ "$z mistral_limit zone=z reserve=0 overrun=x;",
      'invalid value "overrun=x"' ],
    [ "$z mistral_limit zone=z overrun=stop;",
      'invalid value "overrun=stop", an answer overruns' ],
    [ "$z mistral_limit zone=z count=prompt reserve=5;",
      'invalid value "count=prompt", of a prompt nothing is reserved' ],
    [ "$q mistral_quota zone=q reserve=0 overrun=pace;",
      'invalid value "overrun=pace", a quota has no rate' ],
    [ 'mistral_limit_status 200;', 'value must be between 400 and 599' ],
    [ 'mistral_limit_dry_run x;', 'it must be "on" or "off"' ])
{
    fails("$null $t->[0] $d { mistral_pass n; } }", $t->[1]);
}

# the program

for my $t (
    [ 'nothing', "cannot run the engine program \"$prefix/nothing\" "
                 . '(2: No such file' ],
    [ 'plain', '(13: Permission denied)' ],
    [ 'dir', '(13: Permission denied)' ],
    [ 'not_elf', ', its interpreter is missing (2:' ],
    [ 'silent', 'exited with code 3 without an answer' ],
    [ 'loud', "program \"$prefix/loud\" failed: broken library" ],
    [ 'killed', 'was killed by signal 11 before it answered' ],
    [ 'hangs', 'failed: no answer in 5 s, killed' ],
    [ 'other', 'answered "ok layout=0123456789abcdef", the running nginx '
               . 'module has shared layout ' ])
{
    fails("mistral_program $t->[0]; $null", $t->[1]);
    like($said, qr/ in \Q$prefix\E\/nginx\.conf:6$/m, 'and where');
}

my $module = "$build/ngx_http_mistral_module.so";
my @shown = sort map { (split)[2] // () }
            split /\n/, `nm -D --defined-only $module`;
is_deeply(\@shown, [qw/ ngx_module_names ngx_module_order ngx_modules /],
          'the module shows nginx its tables and nothing else');

passes("mistral_program $build/mistral; $null", 'mistral_program');
# a module without its program beside it: the installed one, if there is one

mkdir "$prefix/alone";
system('cp', $module, "$prefix/alone/") == 0 or die;

my ($installed) = `strings -a $module` =~ m{^(/\S+/mistral)$}m;
ok(defined $installed, "the path that was compiled in: $installed");

if (-e $installed) {
    like((check($null, "$prefix/alone"))[1], qr/\Q$installed\E|successful/,
         'the installed program is asked');

} else {
    fails($null, "the engine program is neither \"$prefix/alone/mistral\", "
                 . "beside the module, nor \"$installed\", see "
                 . '"mistral_program"', "$prefix/alone");
}

warns(model('path null:; kv_cache f32 size=500000g;'),
      'the kv_cache of mistral_model "m" may take 512000000 MiB, this machine');

passes('mistral_program nothing;', 'without a model nobody asks it');
fails('mistral_program a; mistral_program b;',
      '"mistral_program" directive is duplicate');

done_testing();


sub model {
    return "mistral_model m { $_[0] }";
}


# what "nginx -t" says of a directory for measurements: a warning or nothing

sub tuning {
    my ($text, $dir) = @_;

    my ($rc, $out) = check(model("path null:; device cuda:0; tuning_cache $dir;"));
    my @warn = grep { /tuning_cache/ } split /\n/, $out;

    ok($rc == 0 && ($text eq '' ? !@warn : @warn == 1
                    && index($warn[0], "[warn] tuning_cache \"$prefix/$dir\" of"
                             . " mistral_model \"m\" $text") >= 0),
       $text || "tuning_cache $dir") or diag $out;
}


# passes, with exactly one warning, which contains the text

sub warns {
    my ($http, $text) = @_;

    my ($rc, $out) = check($http);
    my @warn = grep { /\[warn\]/ } split /\n/, $out;

    ok($rc == 0 && @warn == 1 && index($warn[0], $text) >= 0, $text)
        or diag $out;
}


sub passes {
    my ($http, $name) = @_;

    my ($rc, $out) = check($http);
    ok($rc == 0, $name) or diag $out;
}


# refused, with exactly one complaint, which contains the text

sub fails {
    my ($http, $text, $modules) = @_;

    my ($rc, $out) = check($http, $modules);
    $said = $out;
    my @emerg = grep { /\[emerg\]/ } split /\n/, $out;

    ok($rc != 0 && @emerg == 1 && index($emerg[0], $text) >= 0,
       $text) or diag "$http\nrc $rc\n$out";
}


sub check {
    my ($http, $modules) = @_;

    $modules //= $build;
    write_file("$prefix/nginx.conf", <<"END");
load_module $modules/ngx_http_mistral_module.so;
error_log   logs/error.log;
pid         $prefix/nginx.pid;
events      { }
http {
    $http
}
END

    my $out = `$nginx -p $prefix/ -c nginx.conf -e logs/error.log -t 2>&1`;

    return ($?, $out);
}


sub write_file {
    my ($path, $text) = @_;

    open my $fh, '>', $path or die "$path: $!";
    print $fh $text;
    close $fh;
}
