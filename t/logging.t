#!/usr/bin/perl

# conf.d/logging.conf as it stands, but with the null model: every line of its
# log is one JSON object, whatever a client sends.

use warnings;
use strict;

use lib 't/lib';
use JSON::PP;
use MistralLife;
use Test::More;

time_out(60);

my $S = server();
my $log = "$S->{prefix}/logs/gen_ai.log";
my $conf = slurp('conf.d/logging.conf');
my $temp = join '', map { "${_}_temp_path temp;\n" }
           qw/ client_body proxy fastcgi uwsgi scgi /;
my $user = $> == 0 ? 'user ' . user() . ';' : '';

$conf =~ s{load_module .*}{load_module closed/module.so;
                           pid nginx.pid; $user};
$conf =~ s{path +models/.*;}{path null:rate=100;};
$conf =~ s{/var/log/nginx/}{logs/}g;
$conf =~ s{listen 8080;}{listen 127.0.0.1:$S->{port};};
$conf =~ s/^http \{$/http {\n$temp/m;

write_file("$S->{prefix}/nginx.conf", $conf);

is(nginx(), 0, 'nginx starts with the sample');
ok(ready(), 'ready');

my $answer = decode_json((fetch('POST /v1/chat/completions',
                                chat(5) =~ s/"model":"m",//r))[2]);
my $l = line(1);

is($l->{'http.response.status_code'}, 200, 'status, a number');
is($l->{'url.path'}, '/v1/chat/completions', 'path');
is($l->{'gen_ai.operation.name'}, 'chat', 'operation');
is($l->{'gen_ai.response.id'}, $answer->{id}, 'id');
is($l->{'gen_ai.response.model'}, 'smollm2', 'model');
is($l->{'gen_ai.request.max_tokens'}, 5, 'limit');
is($l->{'gen_ai.usage.input_tokens'}, $answer->{usage}{prompt_tokens},
   'prompt');
is($l->{'gen_ai.usage.output_tokens'}, 5, 'answer');
is_deeply($l->{'gen_ai.response.finish_reasons'}, ['length'], 'end');
ok(!$l->{'gen_ai.request.stream'}, 'no stream');
cmp_ok($l->{'gen_ai.server.time_to_first_token'}, '>=', 0, 'ttft');
cmp_ok($l->{'gen_ai.server.time_per_output_token'}, '>', 0, 'tpot');
like($l->{trace_id}, qr/^[0-9a-f]{32}$/, 'trace');

# what is refused has no numbers

is((fetch('POST /v1/completions', '{"model":"\ud83d\ude00 \"x\\\\ \n","stream":true,'
                                  . '"prompt":"x"}'))[0], 404, 'no such model');
$l = line(2);
is($l->{'gen_ai.usage.output_tokens'}, undef, 'null');
is($l->{'gen_ai.request.model'}, "\x{1f600} \"x\\ ?", 'a hostile name');
is($l->{'gen_ai.operation.name'}, 'text_completion', 'operation');
ok($l->{'gen_ai.request.stream'}, 'a stream');

is((fetch("POST /v1/completions HTTP/1.1\r\nX-Team: a\"b\\c\x01\xff\r\n"
          . 'X-Junk:', '{}'))[0], 400, 'a hostile header');
$l = line(3, 1);
like($l->{'mistral.tag.team'}, qr/^a"b\\c\x01/, 'which is only text');

fetch("POST /v1/completions HTTP/1.1\r\ntraceparent: 00-" . '12' x 16
      . '-' . 'ab' x 8 . "-01\r\nX-Team: red\r\nX-Request-ID: mine-1\r\nX-Junk:",
      '{"prompt":"x","max_tokens":2}');
$l = line(4);
is($l->{trace_id}, '12' x 16, "the client's trace");
is($l->{parent_span_id}, 'ab' x 8, 'and span');
isnt($l->{span_id}, 'ab' x 8, 'ours is another');
is($l->{'mistral.client_request_id'}, 'mine-1', 'and id');
is($l->{'mistral.tag.team'}, 'red', 'and team');

fetch('POST /v1/fim/completions', '{"prompt":"x","max_tokens":2}');
is(line(5)->{'gen_ai.operation.name'}, 'text_completion', 'the middle');

ok((fetch('GET /v1/nothing'))[0], 'a URL of none');
is(line(6)->{'http.response.status_code'}, 404, 'is a line, too');

stop_nginx();
nothing_left();
done_testing();


# line n of the log; bytes that are no UTF-8 are the client's

sub line {
    my ($n, $loose) = @_;
    my @lines;

    wait_for(sub { @lines = split /\n/, slurp($log); @lines >= $n });

    is(scalar @lines, $n, "line $n");

    my $text = $lines[-1];
    my $json = JSON::PP->new->utf8;

    $text =~ s/[\x80-\xff]/?/g if $loose;

    my $line = eval { $json->decode($text) };

    ok($line, 'is JSON') or diag "$@ $text";

    return $line // {};
}
