# Variables of an engine's state, and of what an answer cost.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:; max_batch 4; context 4096; alias nil; }
log_format state 'ready=$mistral_ready load=$mistral_load '
    'running=$mistral_running waiting=$mistral_waiting '
    'tokens=$mistral_waiting_tokens usage=$mistral_kv_usage '
    'free=$mistral_kv_free needed=$mistral_kv_blocks_needed;';
log_format cost '$status completion=$mistral_completion_tokens '
    'delivered=$mistral_delivered_tokens wasted=$mistral_wasted_tokens '
    'phase=$mistral_abort_phase;';
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http . ($block->http_config // ''));
    $block->set_value('config', <<'EOC') if !defined $block->config;
location /v1/ { mistral_pass null; access_log logs/access.log cost; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: an idle engine, the blocks of a request
--- config
location /v1/ { mistral_pass null; access_log logs/access.log state; }
--- request
POST /v1/completions
{"prompt":"0123456789","max_tokens":7,"n":3,"temperature":1}
--- response_body_like: The qui
--- access_log eval
qr/ready=1 load=\d+ running=\d waiting=0 tokens=0 usage=\d\.\d{3} free=[1-9]\d* needed=6;/



=== TEST 2: while others run and wait: the location's model
--- http_config
mistral_model slow { path null:delay=600000; max_batch 2; }
--- config
location = /status { mistral_status json; }
location /slow/ {
    mistral_pass  slow;
    add_header    X-Load "$mistral_load $mistral_running $mistral_waiting $mistral_kv_usage" always;
}
location /any/ { mistral_pass $arg_to; add_header X-Load "$mistral_load" always; }
location = /see { return 200 "load $mistral_load"; }
--- init
MistralTest::hold('/slow/completions', '{"prompt":"' . 'x' x 100 . '"}');
--- request eval
["GET /slow/models", "POST /any/completions?to=slow\n" . '{"model":"slow","prompt":',
 "POST /any/completions?to=slow\n" . '{"model":"slow","prompt":""}', "GET /see"]
--- error_code eval
[200, 400, 400, 200]
--- response_headers_like eval
["X-Load: 50 1 0 0\\.00\\d", "X-Load: ", "X-Load: 50", ""]
--- response_body_like eval
["slow", "invalid_json", "empty", '^load $']



=== TEST 3: the only one there is, in any location, and a map
--- http_config
map $mistral_load $busy { "~^(50|100)$" busy; default idle; }
--- config
location = /see { return 200 "$busy load=$mistral_load running=$mistral_running waiting=$mistral_waiting ready=$mistral_ready"; }
--- request
GET /see
--- response_body chomp
idle load=0 running=0 waiting=0 ready=1



=== TEST 4: an engine that is stopped
--- http_config
mistral_model dead { path null:; engine_timeout 2s; }
--- config
location /v1/ {
    mistral_pass  dead;
    add_header    X-Ready "$mistral_ready" always;
}
location = /status { mistral_status json; }
--- init
MistralTest::stop_engine('dead');
--- request
POST /v1/completions
{"prompt":"a"}
--- error_code: 503
--- response_headers
X-Ready: 0
--- response_body_like: engine



=== TEST 5: delivered is all of a whole answer, stream or not
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":20,"stream":true}',
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":20,"n":4}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"a"}],"max_tokens":20}']
--- response_body_like eval
["DONE", "index", "index"]
--- access_log eval
qr/200 completion=([28]0) delivered=\1 wasted=0 phase=-;/



=== TEST 6: nothing of a refusal
--- request eval
["POST /v1/completions\n{", "POST /v1/completions\n" . '{"prompt":"' . 'a' x 5000 . '"}']
--- error_code eval
[400, 400]
--- response_body_like eval
["error", "context"]
--- access_log eval
qr/400 completion=(-|0) delivered=(-|0) wasted=(-|0) phase=-;/



=== TEST 7: a client that leaves while it waits
--- http_config
mistral_model slow { path null:delay=600000; max_batch 1; }
--- config
location /v1/ { mistral_pass slow; access_log logs/access.log cost; }
location /hold/ { mistral_pass slow; }
location = /status { access_log off; mistral_status json; }
--- init
MistralTest::hold('/hold/completions', '{"prompt":"a"}');
--- request
POST /v1/completions
{"prompt":"a"}
--- abort
--- timeout: 0.3
--- ignore_response
--- wait: 0.3
--- error_log
client prematurely closed connection



=== TEST 8: an estimate, once a rate is known
--- config
location /v1/ { mistral_pass null; add_header X-Ttft "$mistral_est_ttft"; }
--- request eval
[("POST /v1/completions\n" . '{"prompt":"' . 'a' x 4000 . '","max_tokens":2}') x 3]
--- response_headers_like eval
[("X-Ttft: \\d*") x 3]
--- response_body_like eval
[("T") x 3]
