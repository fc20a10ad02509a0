# mistral_health and mistral_status.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config',
                      'mistral_model null { path null:; max_batch 3;'
                      . ' context 4096; alias nil; }')
        if !defined $block->http_config;
    $block->set_value('config', <<'EOC') if !defined $block->config;
location = /livez { mistral_health live; }
location = /healthz { mistral_health ready; }
location = /status { mistral_status json; }
location /v1/ { mistral_pass null; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: ready
--- request
GET /healthz
--- response_body_like: \A\{"status":"ok","scheduler_status":"idle","kv_cache_usage":0,"active_requests":0,"queued_requests":0,"last_step_ms":[\d.e-]+,"breaker":"closed","model":"null"\}\n\z
--- response_headers
Content-Type: application/json
Cache-Control: no-store
! Retry-After



=== TEST 2: live
--- request
GET /livez
--- response_body_like: \A\{"status":"ok",.*"model":"null"\}\n\z



=== TEST 3: HEAD
--- request eval
["HEAD /healthz", "HEAD /livez", "HEAD /status"]
--- error_code eval
[200, 200, 200]
--- response_body eval
["", "", ""]



=== TEST 4: other methods
--- request eval
["POST /healthz\n{}", "PUT /livez", "DELETE /status"]
--- error_code eval
[405, 405, 405]
--- response_headers eval
[("Allow: GET, HEAD") x 3]
--- response_body_like eval
[('"code":"method_not_allowed"') x 3]



=== TEST 5: several models
--- http_config
mistral_model one { path null:; }
mistral_model two { path null:; }
--- config
location = /healthz { mistral_health ready; }
--- request
GET /healthz
--- response_body_like: \A\{"status":"ok",.*"model":"one","models":\[\{"status":"ok",.*"model":"one"\},\{"status":"ok",.*"model":"two"\}\]\}\n\z



=== TEST 6: counters
--- request eval
["POST /v1/completions\n" . '{"prompt":"' . 'x' x 40 . '","max_tokens":7}',
 "POST /v1/completions\n" . '{"prompt":"' . 'x' x 40 . '","max_tokens":5}', "GET /status"]
--- response_body_like eval
['The qui', 'The q', '\A\{"models":\[\{"model":"null","aliases":\["nil"\],"state":"ready","context":4096,.*"backend":"[^"]+","engine_pid":\d+,"restarts":0,"max_batch":3,"heartbeat_age_ms":\d+,"queue_places":0,"queue_place_tokens":0,.*"running":0,"waiting":0,.*"prompt_tokens":80,"cached_tokens":32,"completion_tokens":12,"preemptions":0,"finished":2,"refused":0,"cancelled":0,']
--- wait: 0.1



=== TEST 7: an engine that is stopped is not ready, a worker is live
--- http_config
mistral_model null { path null:; engine_timeout 2s; }
--- init
MistralTest::stop_engine('null');
--- request eval
["GET /healthz", "GET /livez", "POST /v1/completions\n" . '{"prompt":"x"}',
 "POST /v1/tokenize\n" . '{"prompt":"x"}']
--- error_code eval
[503, 200, 503, 200]
--- response_headers eval
["Retry-After: 1", "! Retry-After",
 "Retry-After: 1\nX-Mistral-Shed-Reason: engine", "! Retry-After"]
--- response_body_like eval
['\A\{"status":"down","scheduler_status":"down",.*"model":"null"\}\n\z',
 '\A\{"status":"ok","scheduler_status":"down",',
 '"type":"server_error","param":null,"code":"engine_unavailable"', 'tokens']



=== TEST 8: decode, nothing to do
--- config
location = /decode { mistral_health decode; }
--- request
GET /decode
--- response_body_like: \A\{"status":"ok","scheduler_status":"idle",



=== TEST 9: decode, work but no step in time
--- http_config
mistral_model null { path null:delay=600000; engine_timeout 2s; }
--- config
location = /decode { mistral_health decode; }
location = /healthz { mistral_health ready; }
location = /livez { mistral_health live; }
location = /status { mistral_status json; }
location /v1/ { mistral_pass null; }
--- init
MistralTest::hold('/v1/completions', '{"prompt":"x"}');
sleep 2.5;
--- request eval
["GET /decode", "GET /healthz", "GET /livez"]
--- error_code eval
[503, 200, 200]
--- response_headers eval
["Retry-After: 1", "! Retry-After", "! Retry-After"]
--- response_body_like eval
['\A\{"status":"stuck","scheduler_status":"stuck",.*"active_requests":1,',
 '\A\{"status":"ok","scheduler_status":"running",',
 '\A\{"status":"ok","scheduler_status":"running",']



=== TEST 10: tokens of the queue
--- http_config
mistral_model null { path null:delay=600000; max_batch 8; }
--- config
location = /status { mistral_status json; }
location /v1/ { mistral_pass null; }
location /few/ { mistral_pass null; mistral_queue 8 tokens=30 timeout=1s; }
location /many/ { mistral_pass null; mistral_queue 8 tokens=1k timeout=1s;
                  location /many/in/ { mistral_pass null; } }
--- init
MistralTest::hold('/v1/completions', '{"prompt":"' . 'x' x 20 . '"}');
--- request eval
["POST /few/completions\n" . '{"prompt":"' . 'x' x 11 . '"}',
 "GET /status",
 "POST /many/completions\n" . '{"prompt":"' . 'x' x 981 . '"}',
 "POST /many/in/completions\n" . '{"prompt":"' . 'x' x 981 . '"}']
--- error_code eval
[503, 200, 503, 503]
--- response_headers eval
["X-Mistral-Shed-Reason: queue_full\nRetry-After: 1",
 "! X-Mistral-Shed-Reason", "X-Mistral-Shed-Reason: queue_full",
 "X-Mistral-Shed-Reason: queue_full"]
--- response_body_like eval
['"code":"queue_full"', '"queue_places":1,"queue_place_tokens":20,',
 '"code":"queue_full"', '"code":"queue_full"']



=== TEST 11: a prompt above the tokens of the queue, alone
--- config
location = /status { mistral_status json; }
location /few/ { mistral_pass null; mistral_queue 8 tokens=30; }
--- request
POST /few/completions
{"prompt":"0123456789012345678901234567890123456789","max_tokens":3}
--- response_body_like: "text":"The"
