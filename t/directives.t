#!/usr/bin/perl

# What "nginx -t" says of mistral_model and mistral_program: every refusal is
# one sentence that names the value, and what is right passes.  What stands in
# locations: directives_location.t.

use warnings;
use strict;

use lib 't/lib';
use File::Copy qw/ copy /;
use MistralCheck;
use Test::More;

my $gguf = "$build/models/SmolLM2-135M-Instruct.Q4_1.gguf";

mkdir "$prefix/$_" for qw/ dir files /;
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
    like(said(), qr/ in \Q$prefix\E\/nginx\.conf:6$/m, 'and where');
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
