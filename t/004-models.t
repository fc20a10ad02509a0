# /models and /models/ID: what a client of the location may ask for.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', <<'EOC');
mistral_model one { path null:; context 4096; alias uno eins; }
mistral_model two { path null:; context 512; }
EOC
    $block->set_value('config', <<'EOC');
location /v1/ { mistral_pass one; }
location /any/ { mistral_pass $arg_m; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: a model and its aliases
--- request
GET /v1/models
--- response_body_like eval
'\A\{"object":"list","data":\[' . CORE::join(',', map {
'\{"id":"' . $_ . '","object":"model","created":\d+,"owned_by":"nginx","max_model_len":4096,"type":"base","max_context_length":4096,"capabilities":\{"completion_chat":true,[^}]*\}\}'
} qw/ one uno eins /) . '\]\}\s*\z'
--- response_headers
Content-Type: application/json



=== TEST 2: one of them
--- request eval
["GET /v1/models/one", "GET /v1/models/eins", "GET /v1/models/%65ins"]
--- response_body_like eval
['\A\{"id":"one","object":"model",', '\A\{"id":"eins",', '\A\{"id":"eins",']



=== TEST 3: another location's model does not exist here
--- request eval
["GET /v1/models/two", "GET /v1/models/on", "GET /v1/models/one/x"]
--- error_code eval
[404, 404, 404]
--- response_body_like eval
[('"param":"model","code":"model_not_found"') x 3]



=== TEST 4: with a variable all of them
--- request eval
["GET /any/models", "GET /any/models/two"]
--- response_body_like eval
['"id":"one".*"id":"uno".*"id":"eins".*"id":"two".*"max_model_len":512', '"id":"two"']



=== TEST 5: HEAD
--- request
HEAD /v1/models
--- response_headers_like
Content-Length: \d+
--- response_body:



=== TEST 6: kept alive
--- pipelined_requests eval
["GET /v1/models", "GET /v1/models/zzz", "GET /v1/models/one"]
--- error_code eval
[200, 404, 200]
--- response_body_like eval
['one', 'zzz', 'one']
