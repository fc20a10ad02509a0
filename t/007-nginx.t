# The request path among nginx's own modules.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', ($block->http_config // '') . <<'EOC');

mistral_model null { path null:; context 4096; }
mistral_model slow { path null:rate=100; context 4096; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: auth_basic comes first
--- config
location /v1/ {
    mistral_pass          null;
    auth_basic            "models";
    auth_basic_user_file  $TEST_NGINX_HTML_DIR/users;
}
--- user_files
>>> users
me:{PLAIN}secret
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}') x 2]
--- more_headers eval
["Authorization: Basic bWU6c2VjcmV0", ""]
--- error_code eval
[200, 401]
--- response_body_like eval
['"text":"T"', '"code":"unauthorized"']



=== TEST 2: auth_request, whose subrequest has no body
--- config
location /v1/ { mistral_pass null; auth_request /check; }
location = /check { internal; return 204; }
--- request
POST /v1/completions
{"prompt":"a","max_tokens":2}
--- response_body_like: "text":"Th"



=== TEST 3: limit_req
--- http_config
limit_req_zone $http_x_key zone=z:1m rate=1r/m;
--- config
location /v1/ { mistral_pass null; limit_req zone=z; limit_req_status 429; }
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}') x 3]
--- more_headers eval
["X-Key: a", "X-Key: a", "X-Key: b"]
--- error_code eval
[200, 429, 200]
--- response_body_like eval
['T', '"type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"', 'T']



=== TEST 4: split_clients chooses the model
--- http_config
split_clients $http_x_key $half { 50% null; * slow; }
--- config
location /v1/ { mistral_pass $half; }
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}') x 2]
--- more_headers eval
["X-Key: 1", "X-Key: 5"]
--- response_headers_like eval
[("X-Mistral-Model: (null|slow)") x 2]
--- response_body_like eval
["T", "T"]



=== TEST 5: rewrite into the location
--- config
location /v1/ { mistral_pass null; }
location /ask { rewrite ^ /v1/completions last; }
--- request
POST /ask
{"prompt":"a","max_tokens":2}
--- response_body_like: "text":"Th"



=== TEST 6: if in location
--- config
location /v1/ {
    mistral_pass null;
    if ($http_x_slow) { mistral_pass slow; }
}
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":2}') x 2]
--- more_headers eval
["X-Slow: 1", ""]
--- response_headers eval
["X-Mistral-Model: slow", "X-Mistral-Model: null"]
--- response_body_like eval
["Th", "Th"]



=== TEST 7: behind another nginx, streamed and whole
--- config
location /v1/ { mistral_pass null; }
location /out/ {
    proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/v1/;
    proxy_http_version 1.1;
}
--- request eval
["POST /out/completions\n" . '{"prompt":"a","max_tokens":2}',
 "POST /out/completions\n" . '{"prompt":"a","max_tokens":2,"stream":true}']
--- response_body_like eval
['"text":"Th"', '"text":"T".*"text":"h".*DONE']



=== TEST 8: a mirrored request is one of its own
--- config
location /v1/ { mistral_pass null; mirror /copy; }
location = /copy {
    internal;
    rewrite       ^ /copy/v1/completions break;
    mistral_pass  slow;
}
location = /status { mistral_status json; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":3}',
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":3,"stream":true}', "GET /status"]
--- response_body_like eval
['"text":"The"', '"text":"T".*DONE',
 '"model":"slow".*"queue_places":0,.*"running":0,.*"finished":[12],']
--- wait: 0.3



=== TEST 9: a list of models inside of a page
--- config
location /v1/ { mistral_pass null; }
location = /page.html { ssi on; root $TEST_NGINX_HTML_DIR; }
--- user_files
>>> page.html
<a><!--# include virtual="/v1/models" --></a><b><!--# include virtual="/v1/zebra" --></b>
--- request
GET /page.html
--- response_body_like: \A<a>\{"object":"list",.*</a><b>\{"error":.*</b>\n\z



=== TEST 10: add_header, more than once
--- config
location /v1/ {
    mistral_pass  null;
    add_header    X-A "$mistral_effective_model" always;
}
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}', "POST /v1/completions\n{}"]
--- error_code eval
[200, 400]
--- response_headers eval
["X-A: null", "! X-A"]
--- response_body_like eval
["T", "prompt"]



=== TEST 11: sub_filter sees the text of a stream
--- config
location /v1/ {
    mistral_pass      null;
    sub_filter        '"text":"h"' '"text":"H"';
    sub_filter_types  text/event-stream;
}
--- request
POST /v1/completions
{"prompt":"a","max_tokens":2,"stream":true}
--- response_body_like: "text":"T".*"text":"H".*DONE



=== TEST 12: limit_except and a denied client
--- config
location /v1/ { mistral_pass null; deny all; }
--- request
POST /v1/completions
{"prompt":"a"}
--- error_code: 403



=== TEST 13: Expect: 100-continue
--- config
location /v1/ { mistral_pass null; }
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
. "Expect: 100-continue\r\nContent-Length: 29\r\n\r\n"
. "{\"prompt\":\"a\",\"max_tokens\":1}"
--- error_code: 100



=== TEST 14: a refusal asks for no body
--- config
location /v1/ { mistral_pass null; lingering_timeout 300ms; }
--- raw_request eval
"POST /v1/zebra HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
. "Expect: 100-continue\r\nContent-Length: 29\r\n\r\n"
--- error_code: 404
--- response_body_like: unknown_url
