# Streams: comments that keep a quiet one open, times, directives.  Slow
# readers and clients that leave: t/streams.t.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:; context 4096; }
mistral_model late { path null:delay=700; }
mistral_model never { path null:delay=3600000; }
mistral_model slow { path null:rate=5; }
mistral_model one { path null:delay=3600000; max_batch 1; }
EOC

our $Config = <<'EOC';
location /v1/ { mistral_pass null; }
location /late/ { mistral_pass late; }
location /never/ { mistral_pass never; }
location /slow/ { mistral_pass slow; }
location /one/ { mistral_pass one; }
location = /status { mistral_status json; }
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http);
    $block->set_value('config', $Config . ($block->config // ''));
});

our $Stream = '{"prompt":"hi","max_tokens":2,"stream":true}';
our $Whole = '{"prompt":"hi","max_tokens":2}';
our $Ping = qr/(?:: ping\n\n)/;

ready_on();
run_tests();

__DATA__

=== TEST 1: comments until there is text, and events that a client can read
--- config
mistral_sse_keepalive 100ms;
--- request eval
"POST /late/completions\n$::Stream"
--- response_body_like eval
qr/\A$::Ping{2,}data: \{[^\n]*"text":"T",[^\n]*\n\n$::Ping*data: \{[^\n]*"text":"h",[^\n]*\n\n$::Ping*data: \{[^\n]*"finish_reason":"length"[^\n]*\n\ndata: \[DONE\]\n\n\z/
--- response_headers
Content-Type: text/event-stream



=== TEST 2: none where they are off, and none in JSON
--- config
mistral_sse_keepalive 100ms;
location /off/ {
    mistral_pass late;
    mistral_sse_keepalive off;
}
--- request eval
["POST /off/completions\n$::Stream", "POST /late/completions\n$::Whole"]
--- response_body_like eval
[qr/\Adata: \{/, qr/\A\{"id":/]



=== TEST 3: between tokens, too
--- config
mistral_sse_keepalive 50ms;
--- request eval
"POST /slow/completions\n$::Stream"
--- response_body_like eval
qr/\Adata: \{[^\n]*"text":"T",[^\n]*\n\n$::Ping+data: \{[^\n]*"text":"h",/



=== TEST 4: a request that waits for its start has its own status
--- config
mistral_sse_keepalive 50ms;
mistral_queue 5 timeout=1s;
--- init
MistralTest::hold('/one/completions', '{"prompt":"hi"}');
--- request eval
"POST /one/completions\n$::Stream"
--- error_code: 503
--- response_body_like: "code":"deadline"
--- response_headers
Content-Type: application/json



=== TEST 5: no first token
--- config
mistral_first_token_timeout 300ms;
mistral_sse_keepalive off;
--- request eval
["POST /never/completions\n$::Whole", "POST /never/completions\n$::Stream"]
--- error_code eval
[504, 504]
--- response_body_like eval
[('\A\{"error":\{"message":"The answer had no first token for more than 300 ms\.","type":"server_error","param":null,"code":"first_token_timeout"}}\n\z') x 2]



=== TEST 6: nor after comments: an event, and no end that could be one
--- config
mistral_first_token_timeout 500ms;
mistral_sse_keepalive 100ms;
--- request eval
"POST /never/completions\n$::Stream"
--- ignore_response
--- response_body_like eval
qr/\A$::Ping+data: \{"error":\{[^\n]*"code":"first_token_timeout"[^\n]*\n\n\z/
--- access_log
" 504 



=== TEST 7: its time begins at the start, not in the queue
--- config
mistral_first_token_timeout 300ms;
mistral_queue 5 timeout=1s;
--- init
MistralTest::hold('/one/completions', '{"prompt":"hi"}');
--- request eval
"POST /v1/completions\n$::Whole"
--- response_body_like: "text":"Th"



=== TEST 8: no next token
--- config
mistral_token_timeout 60ms;
--- request eval
["POST /slow/completions\n$::Whole", "POST /v1/completions\n$::Whole"]
--- error_code eval
[504, 200]
--- response_body_like eval
['"code":"token_timeout"', '"text":"Th"']



=== TEST 9: in a stream: what came, then an event
--- config
mistral_token_timeout 60ms;
--- request eval
"POST /slow/completions\n$::Stream"
--- ignore_response
--- response_body_like eval
qr/\Adata: \{[^\n]*"text":"T",[^\n]*\n\ndata: \{"error":\{[^\n]*"type":"server_error"[^\n]*"code":"token_timeout"[^\n]*\n\n\z/



=== TEST 10: the whole time
--- config
mistral_max_duration 300ms;
location /waits/ {
    mistral_pass one;
    mistral_queue 5 timeout=1m;
}
--- init
MistralTest::hold('/one/completions', '{"prompt":"hi"}');
--- request eval
["POST /never/completions\n$::Stream", "POST /never/completions\n$::Whole", "POST /waits/completions\n$::Whole", "POST /v1/completions\n$::Stream"]
--- error_code eval
[504, 504, 504, 200]
--- response_body_like eval
['"code":"max_duration"', 'took longer than 300 ms', '"code":"max_duration"', 'DONE']



=== TEST 11: the whole time of one that runs
--- config
mistral_max_duration 500ms;
--- request
POST /slow/completions
{"prompt":"hi","max_tokens":1000,"stream":true}
--- ignore_response
--- response_body_like eval
qr/\A(?:data: \{[^\n]*"text":"[The ]+",[^\n]*\n\n)+data: \{"error":\{[^\n]*"code":"max_duration"[^\n]*\n\n\z/



=== TEST 12: error_page takes a 504 over
--- config
mistral_first_token_timeout 200ms;
error_page 504 = @elsewhere;
location @elsewhere { return 200 "elsewhere\n"; }
--- request eval
"POST /never/completions\n$::Stream"
--- response_body
elsewhere



=== TEST 13: each way with slow clients serves one who is not
--- config
location /pause/ { mistral_pass null; mistral_slow_client pause; }
location /buffer/ { mistral_pass null; mistral_slow_client buffer=1; }
location /large/ { mistral_pass null; mistral_slow_client buffer=512k; }
location /close/ { mistral_pass null; mistral_slow_client close; }
--- request eval
[map { "POST /$_/completions\n" . '{"prompt":"hi","max_tokens":3000,"stream":true,"stream_options":{"include_usage":true}}' } qw/ pause buffer large close /]
--- response_body_like eval
[('"completion_tokens":3000,.*\n\ndata: \[DONE\]\n\n\z') x 4]
