# mistral_breaker: its line, and what shows a closed one.  What opens it is
# t/breaker.t's.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Ask = "POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}';

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', ($block->http_config // '') . <<'EOC');
mistral_model null { path null:; context 64; }
mistral_model tight { path null:rate=20; context 4096; max_batch 1; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: closed, in every place that shows it
--- config
location /v1/ { mistral_pass null; mistral_breaker; add_header X-Breaker "$mistral_breaker_state" always; }
location = /healthz { mistral_health ready; }
location = /status { mistral_status json; }
location = /metrics { mistral_status prometheus; }
location = /none { return 200 "[$mistral_breaker_state]"; }
--- request eval
[$main::Ask, "GET /healthz", "GET /status", "GET /metrics", "GET /none"]
--- response_headers eval
["X-Breaker: closed", "", "", "", ""]
--- response_body_like eval
["T", '"breaker":"closed","model":"null"', '"model":"null".*"breaker":"closed"', 'mistral_breaker_state\{model="null"\} 0\n', '\A\[\]']



=== TEST 2: what is not the engine's fault does not count
--- config
mistral_breaker errors=1 window=10m open=10m;
mistral_queue 0;
location /v1/ { mistral_pass $mistral_model; }
location = /status { mistral_status json; }
--- init
MistralTest::hold('/v1/completions', '{"model":"tight","prompt":"a","max_tokens":4000,"stream":true}');
--- request eval
["POST /v1/completions\n" . '{"model":"null","prompt":"' . 'x' x 99 . '"}',
 "POST /v1/completions\n" . '{"model":"null","prompt":',
 "POST /v1/completions\n" . '{"model":"zebra","prompt":"a"}',
 "POST /v1/completions\n" . '{"model":"tight","prompt":"a"}',
 "POST /v1/completions\n" . '{"model":"null","prompt":"a","max_tokens":2}',
 "GET /status"]
--- error_code eval
[400, 400, 404, 503, 200, 200]
--- response_headers eval
["", "", "", "X-Mistral-Shed-Reason: queue_full", "X-Mistral-Model: null", ""]
--- response_body_like eval
["context", "JSON", "model_not_found", "queue_full", "Th",
 '"model":"null".*"breaker":"closed".*"model":"tight".*"breaker":"closed"']



=== TEST 3: all of its numbers, inherited, off
--- http_config
mistral_breaker errors=64 window=1ms open=1h probes=1000;
--- config
location /v1/ { mistral_pass null; }
location /a/ { mistral_pass null; mistral_breaker off; }
location /b/ { mistral_pass null; mistral_breaker probes=1 errors=1; }
--- request eval
[map { $main::Ask =~ s/v1/$_/r } qw/ v1 a b /]
--- response_body_like eval
["T", "T", "T"]



=== TEST 4: too many
--- config
location /v1/ { mistral_pass null; mistral_breaker errors=65; }
--- must_die
--- error_log
invalid parameter "errors=65", it must be one of "errors=1..64", "window=time", "open=time", "probes=1..1000", each once, or "off" alone



=== TEST 5: none
--- config
location /v1/ { mistral_pass null; mistral_breaker probes=0; }
--- must_die
--- error_log
invalid parameter "probes=0"



=== TEST 6: no time
--- config
location /v1/ { mistral_pass null; mistral_breaker open=0; }
--- must_die
--- error_log
invalid parameter "open=0"



=== TEST 7: one number twice
--- config
location /v1/ { mistral_pass null; mistral_breaker window=1s window=2s; }
--- must_die
--- error_log
invalid parameter "window=2s"



=== TEST 8: off with numbers
--- config
location /v1/ { mistral_pass null; mistral_breaker off errors=1; }
--- must_die
--- error_log
invalid parameter "off"



=== TEST 9: twice
--- config
location /v1/ { mistral_pass null; mistral_breaker; mistral_breaker off; }
--- must_die
--- error_log
"mistral_breaker" directive is duplicate
