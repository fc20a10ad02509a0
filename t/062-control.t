# mistral_control in one worker; over workers and reloads: t/control.t.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', <<'EOC') if !defined $block->http_config;
mistral_model null { path null:; context 4096; alias nil a/b; }
mistral_model other { path null:; context 4096; }
EOC
    $block->set_value('config', <<'EOC') if !defined $block->config;
location /v1/ { mistral_pass null; }
location /other/ { mistral_pass other; }
location = /healthz { mistral_health ready; }
location /control/ { mistral_control; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: drain and resume
--- request eval
["POST /control/drain", "POST /v1/completions\n" . '{"prompt":"a"}', "GET /healthz",
 "POST /other/completions\n" . '{"prompt":"a"}', "POST /v1/tokenize\n" . '{"prompt":"a"}', "GET /v1/models",
 "POST /control/resume", "POST /v1/completions\n" . '{"prompt":"a","max_tokens":2}', "GET /healthz"]
--- error_code eval
[200, 503, 503, 503, 200, 200, 200, 200, 200]
--- response_headers eval
["Content-Type: application/json",
 "X-Mistral-Shed-Reason: draining\nRetry-After: 1", "Retry-After: 1",
 "X-Mistral-Shed-Reason: draining", "", "", "", "! X-Mistral-Shed-Reason", ""]
--- response_body_like eval
['\A\{"models":\[\{"model":"null","state":"draining","requests":0\},\{"model":"other","state":"draining","requests":0\}\]\}\n\z',
 '"code":"draining"', '"status":"draining","scheduler_status":"draining"',
 '"code":"draining"', '"count":1', '"object":"list"',
 '\A\{"models":\[\{"model":"null","state":"ready","requests":0\},',
 '"Th"', '"status":"ok"']



=== TEST 2: one model, by name and by alias
--- request eval
["POST /control/drain?model=other", "POST /v1/completions\n" . '{"prompt":"a","max_tokens":2}',
 "POST /other/completions\n" . '{"prompt":"a","max_tokens":2}', "POST /control/resume?model=other",
 "POST /control/drain?model=a%2Fb", "POST /v1/completions\n" . '{"prompt":"a"}',
 "POST /other/completions\n" . '{"prompt":"a","max_tokens":2}', "POST /control/drain?model=zebra"]
--- error_code eval
[200, 200, 503, 200, 200, 503, 200, 404]
--- response_body_like eval
['\A\{"models":\[\{"model":"other","state":"draining","requests":0\}\]\}\n\z',
 'Th', 'draining', '"other","state":"ready"', '"null","state":"draining"', 'draining', 'Th',
 'The model \\\\"zebra\\\\" does not exist.*"code":"model_not_found"']



=== TEST 3: drain lets go on what runs, and a fallback answers the rest
--- http_config
mistral_model null { path null:rate=50; context 4096; }
mistral_model other { path null:; context 4096; }
--- config
location /v1/ { mistral_pass null; error_page 503 = @other; }
location @other { mistral_pass $fallback; set $fallback other; }
location = /status { mistral_status json; }
location /control/ { mistral_control; }
--- init
MistralTest::hold('/v1/completions', '{"prompt":"a","max_tokens":2000}');
--- request eval
["POST /control/drain?model=null", "GET /status", "POST /v1/completions\n" . '{"prompt":"ab","max_tokens":2}']
--- response_headers eval
["", "", "X-Mistral-Model: other"]
--- response_body_like eval
['\A\{"models":\[\{"model":"null","state":"draining","requests":1\}\]\}\n\z',
 '"state":"draining",.*"running":1,', 'Th']



=== TEST 4: the prefix cache is emptied
--- request eval
[("POST /v1/completions\n" . '{"prompt":"' . 'x' x 40 . '","max_tokens":1}') x 2,
 "POST /control/flush_prefix?model=other",
 "POST /v1/completions\n" . '{"prompt":"' . 'x' x 40 . '","max_tokens":1}',
 "POST /control/flush_prefix",
 ("POST /v1/completions\n" . '{"prompt":"' . 'x' x 40 . '","max_tokens":1}') x 2]
--- response_body_like eval
['"cached_tokens":0', '"cached_tokens":32', '"model":"other","state":"ready"',
 '"cached_tokens":32', '"model":"null","state":"ready"',
 '"cached_tokens":0', '"cached_tokens":32']



=== TEST 5: what is flushed is in the log
--- request
POST /control/flush_prefix?model=null
--- response_body_like: models
--- error_log
mistral model "null": flush_prefix by mistral_control



=== TEST 6: ids that cannot be
--- request eval
["POST /control/cancel", "POST /control/cancel?id=", "POST /control/cancel?id=A%22",
 "POST /control/cancel?id=" . 'a' x 64, "POST /control/cancel?id=chatcmpl-" . '0' x 32]
--- error_code eval
[400, 400, 400, 400, 404]
--- response_body_like eval
[('"param":"id","code":"invalid_value"') x 4, '"param":"id","code":"request_not_found"']



=== TEST 7: other methods, other commands
--- request eval
["GET /control/drain", "HEAD /control/drain", "DELETE /control/drain", "POST /control/", "POST /control/Drain", "POST /control/drain/x"]
--- error_code eval
[405, 405, 405, 404, 404, 404]
--- response_headers eval
[("Allow: POST") x 3, ("! Allow") x 3]
--- response_body_like eval
['method_not_allowed', '', 'method_not_allowed', ('unknown_command') x 3]



=== TEST 8: who may
--- config
location /control/ { mistral_control; deny all; }
location = /healthz { mistral_health ready; }
--- request eval
["POST /control/drain", "GET /healthz"]
--- error_code eval
[403, 200]
--- response_body_like eval
["", "ok"]



=== TEST 9: a body is not read
--- request eval
"POST /control/resume\n" . 'x' x 100
--- response_body_like: models



=== TEST 10: one handler a location
--- config
location /v1/ { mistral_pass null; mistral_control; }
--- must_die
--- error_log
"mistral_control" cannot be used in a location that has another handler



=== TEST 11: no models
--- http_config
root /nowhere;
--- config
location /control/ { mistral_control; }
--- no_ready
--- request eval
["POST /control/drain", "POST /control/cancel?id=a"]
--- error_code eval
[200, 404]
--- response_body_like eval
['\A\{"models":\[\]\}\n\z', 'request_not_found']
