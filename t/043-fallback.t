# mistral_fallback: another model for what the first one does not take, and
# error_page for what none does.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Ask = "POST /v1/completions\n" . '{"model":"tight","prompt":"abc","max_tokens":3}';
our $Hold = '{"prompt":"a","max_tokens":4000,"stream":true}';

# tight is full while one request is held; small has no room for more than 20
# tokens; big has

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', ($block->http_config // '') . <<'EOC');
mistral_model tight { path null:rate=20; context 4096; max_batch 1; }
mistral_model small { path null:; context 20; }
mistral_model big { path null:; context 65536; }
mistral_queue 0;
client_max_body_size 1m;
log_format who '$status $mistral_model $mistral_effective_model '
               '$mistral_fallback_reason $mistral_shed_reason '
               '$mistral_prompt_tokens+$mistral_completion_tokens;';
server {
    listen unix:$TEST_NGINX_HTML_DIR/socket;
    location /v1/ { mistral_pass big; }
}
EOC
    $block->set_value('config', ($block->config // '') . <<'EOC');
location /hold/ { mistral_pass tight; mistral_fallback off; }
location = /status { mistral_status json; access_log logs/access.log who; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: a full queue
--- config
location /v1/ { mistral_pass tight; mistral_fallback big; access_log logs/access.log who; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
$main::Ask
--- response_headers
X-Mistral-Model: big
! X-Mistral-Shed-Reason
! Retry-After
--- response_body_like: "model":"tight".*"text":"The".*"prompt_tokens":3,"completion_tokens":3
--- access_log
200 tight big queue_full - 3+3;
--- error_log
goes from model "tight" to "big": queue_full



=== TEST 2: a stream, a chat, text to tokens
--- config
location /v1/ { mistral_pass tight; mistral_fallback big; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
["POST /v1/completions\n" . '{"prompt":"abc","max_tokens":3,"stream":true,"n":2,"temperature":0,"stream_options":{"include_usage":true}}',
 "POST /v1/chat/completions\n" . '{"max_tokens":3,"temperature":0,"n":2,"logprobs":true,"stop":["e"],"messages":[{"role":"user","content":"hi"}]}',
 "POST /v1/tokenize\n" . '{"prompt":"ab"}']
--- response_headers eval
["X-Mistral-Model: big", "X-Mistral-Model: big", ""]
--- response_body_like eval
['\Adata: \{(?:(?!error).)*"completion_tokens":3,.*\[DONE\]\n\n\z',
 '"content":"Th".*"content":"Th"', '"count":2,"max_model_len":4096']



=== TEST 3: only for the reasons of its line
--- config
location /v1/ { mistral_pass tight; mistral_fallback big on=breaker|kv_full|context; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
[$main::Ask]
--- error_code eval
[503]
--- response_headers eval
["X-Mistral-Shed-Reason: queue_full"]
--- response_body_like eval
["queue_full"]



=== TEST 4: one after the other, each by its own reason
--- config
location /v1/ {
    mistral_pass      tight;
    mistral_fallback  small on=queue_full;
    mistral_fallback  big on=context;
    access_log        logs/access.log who;
}
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
["POST /v1/completions\n" . '{"prompt":"abc","max_tokens":3}', "POST /v1/completions\n" . '{"prompt":"' . 'x' x 50 . '","max_tokens":3}',
 "GET /status"]
--- response_headers eval
["X-Mistral-Model: small", "X-Mistral-Model: big", ""]
--- response_body_like eval
['"prompt_tokens":3,', '"prompt_tokens":50,', "."]
--- access_log eval
qr/200 - (?:small queue_full - 3|big context - 50)\+3;|200 - -/



=== TEST 5: a prompt that is too long for the first
--- config
location /v1/ { mistral_pass small; mistral_fallback big on=context; }
location /no/ { mistral_pass small; mistral_fallback big; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"' . 'x' x 30 . '","max_tokens":3}',
 "POST /v1/completions\n" . '{"prompt":"' . 'x' x 19 . '","max_tokens":3}',
 "POST /no/completions\n" . '{"prompt":"' . 'x' x 30 . '","max_tokens":3}']
--- error_code eval
[200, 200, 400]
--- response_headers eval
["X-Mistral-Model: big", "X-Mistral-Model: small", ""]
--- response_body_like eval
['"text":"The"', '"text":"T","logprobs":null,"finish_reason":"length"', 'context_length_exceeded']



=== TEST 6: nobody takes it: the first one's refusal, which is worth a retry
--- config
location /v1/ { mistral_pass tight; mistral_fallback small; access_log logs/access.log who; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
"POST /v1/completions\n" . '{"prompt":"' . 'x' x 50 . '","max_tokens":3}'
--- error_code: 503
--- response_headers
X-Mistral-Shed-Reason: queue_full
Retry-After: 1
--- response_body_like: "code":"queue_full"
--- access_log
503 - tight queue_full queue_full



=== TEST 7: nobody takes it: 503 rather than a final 400
--- config
location /v1/ { mistral_pass small; mistral_fallback tight on=context; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
"POST /v1/completions\n" . '{"prompt":"' . 'x' x 50 . '","max_tokens":3}'
--- error_code: 503
--- response_headers
X-Mistral-Shed-Reason: queue_full
--- response_body_like: "code":"queue_full"



=== TEST 8: no way back, no circle
--- config
location /v1/ { mistral_pass $mistral_model; mistral_fallback tight; mistral_fallback small; }
location /b/ { mistral_pass $arg_m; mistral_fallback tight on=context|queue_full; mistral_fallback small on=context|queue_full; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
["POST /v1/completions\n" . '{"model":"tight","prompt":"' . 'x' x 50 . '"}', "POST /b/completions?m=small\n" . '{"prompt":"' . 'x' x 50 . '"}']
--- error_code eval
[503, 503]
--- response_body_like eval
["queue_full", "queue_full"]



=== TEST 9: an engine that hangs, known before the body is read
--- http_config
mistral_model hung { path null:rate=20; context 4096; engine_timeout 2s; }
--- config
location /v1/ { mistral_pass hung; mistral_fallback big; access_log logs/access.log who; }
location /no/ { mistral_pass hung; mistral_fallback big on=breaker; }
location /pre/ { mistral_pass hung; mistral_fallback big; mistral_preread on; }
--- init
MistralTest::stop_engine('hung');
--- request eval
["POST /pre/completions\n" . '{"prompt":', "POST /pre/completions\n" . '{"prompt":"a","max_tokens":2}',
 $main::Ask =~ s/tight/hung/r, "POST /v1/completions\n" . '{"prompt":"' . 'x' x 40000 . '","max_tokens":3}',
 $main::Ask =~ s/tight/hung/r =~ s/v1/no/r]
--- error_code eval
[400, 200, 200, 200, 503]
--- response_headers eval
["", "X-Mistral-Model: big", "X-Mistral-Model: big", "X-Mistral-Model: big", "X-Mistral-Shed-Reason: engine"]
--- response_body_like eval
['JSON', 'Th', '"model":"hung"', '"prompt_tokens":40000', 'engine_unavailable']



=== TEST 10: what the client did wrong is not tried again
--- config
location /v1/ { mistral_pass small; mistral_fallback big; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":-1}', "POST /v1/completions\n" . '{"model":"big","prompt":"a"}']
--- error_code eval
[400, 404]
--- response_headers eval
["! X-Mistral-Model", "! X-Mistral-Model"]
--- response_body_like eval
["max_tokens", "model_not_found"]
--- no_error_log
goes from model



=== TEST 11: what none takes goes to a second server, with the body as it came
--- config
location /v1/ {
    mistral_pass      tight;
    mistral_fallback  small;
    error_page        503 = @remote;
    access_log        logs/access.log who;
}
location @remote { proxy_pass http://unix:$TEST_NGINX_HTML_DIR/socket; access_log logs/access.log who; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
["POST /v1/completions\n" . '{' . ' ' x 30000 . '"prompt":"' . 'x' x 30 . '","max_tokens":3}', "POST /v1/completions\n" . '{"prompt":"a","max_tokens":3}',
 "GET /status"]
--- response_headers eval
["X-Mistral-Model: big", "X-Mistral-Model: small", ""]
--- response_body_like eval
['"prompt_tokens":30,', '"prompt_tokens":1,', '.']
--- access_log eval
qr/200 - tight queue_full queue_full|200 - small queue_full -|200 - -/



=== TEST 12: a canary that is full goes back to the stable model
--- config
location /v1/ { mistral_pass big; mistral_canary tight 100%; mistral_fallback big; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":3}']
--- response_headers eval
["X-Mistral-Model: big"]
--- response_body_like eval
['"model":"big"']



=== TEST 13: counted
--- config
location /v1/ { mistral_pass tight; mistral_fallback big; }
location = /metrics { mistral_status prometheus; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
[$main::Ask, $main::Ask, "GET /metrics"]
--- response_body_like eval
["T", "T", 'requests_total\{model="big",code="200"\} 2\n.*shed_total\{model="tight",reason="queue_full"\} 0\n.*fallbacks_total\{model="tight"\} 2\n.*fallbacks_total\{model="big"\} 0\n']



=== TEST 14: inherited, replaced, off
--- http_config
mistral_fallback big;
--- config
location /v1/ { mistral_pass tight; }
location /a/ { mistral_pass tight; mistral_fallback small; }
location /b/ { mistral_pass tight; mistral_fallback off; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
[map { $main::Ask =~ s/v1/$_/r } qw/ v1 a b /]
--- error_code eval
[200, 200, 503]
--- response_headers eval
["X-Mistral-Model: big", "X-Mistral-Model: small", "! X-Mistral-Model"]
--- response_body_like eval
["The", "The", "queue_full"]



=== TEST 15: a limit counts a request once, whoever answers
--- http_config
mistral_limit_zone $arg_k zone=z:1m rate=100t/h;
--- config
location /v1/ { mistral_pass tight; mistral_fallback big; mistral_limit zone=z; }
location /b/ { mistral_pass tight; mistral_fallback small; mistral_limit zone=z; }
--- init
MistralTest::hold('/hold/completions', $main::Hold);
--- request eval
[$main::Ask =~ s/completions/completions?k=1/r, "POST /b/completions?k=1\n" . '{"prompt":"' . 'x' x 50 . '","max_tokens":3}',
 $main::Ask =~ s/completions/completions?k=1/r, $main::Ask =~ s/completions/completions?k=1/r =~ s/":3/":90/r]
--- error_code eval
[200, 503, 200, 429]
--- response_headers eval
["X-Ratelimit-Remaining-Tokens: 94", "X-Mistral-Shed-Reason: queue_full",
 "X-Ratelimit-Remaining-Tokens: 88", "! X-Mistral-Model"]
--- response_body_like eval
["The", "queue_full", "The", "rate_limit"]



=== TEST 16: an unknown model
--- config
location /v1/ { mistral_pass tight; mistral_fallback bigg; }
--- must_die
--- error_log
unknown mistral_model "bigg" in



=== TEST 17: an unknown reason
--- config
location /v1/ { mistral_pass tight; mistral_fallback big on=queue_full|full; }
--- must_die
--- error_log
invalid parameter "on=queue_full|full", it must be "on=" with some of breaker, queue_full, kv_full, deadline, loading, draining, engine, context, thermal and "|" between them



=== TEST 18: no reason
--- config
location /v1/ { mistral_pass tight; mistral_fallback big on=; }
--- must_die
--- error_log
invalid parameter "on="



=== TEST 19: one model twice
--- config
location /v1/ { mistral_pass tight; mistral_fallback big on=breaker; mistral_fallback big on=engine; }
--- must_die
--- error_log
the fallback "big" stands there already in



=== TEST 20: off beside a line
--- config
location /v1/ { mistral_pass tight; mistral_fallback off; mistral_fallback big; }
--- must_die
--- error_log
"mistral_fallback" directive cannot be "off" beside other lines



=== TEST 21: the location's own model
--- config
location /v1/ { mistral_pass tight; mistral_fallback tight; }
--- must_die
--- error_log
the fallback "tight" is the location's own model in
