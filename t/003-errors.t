# What is refused, and how.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config',
                      'mistral_model null { path null:; context 64; }')
        if !defined $block->http_config;
    $block->set_value('config', 'location /v1/ { mistral_pass null; }')
        if ($block->config // '') !~ /mistral_pass/;
});

ready_on();
run_tests();

__DATA__

=== TEST 1: no API at this URL
--- request
GET /v1/chat
--- error_code: 404
--- response_body_like: \A\{"error":\{"message":"There is no API at this URL \(/v1/chat\).","type":"invalid_request_error","param":null,"code":"unknown_url"}}\n\z
--- response_headers
Content-Type: application/json



=== TEST 2: another method
--- request eval
["GET /v1/chat/completions", "PUT /v1/completions\nx", "POST /v1/models\n{}",
 "DELETE /v1/models/null", "PATCH /v1/tokenize"]
--- error_code eval
[405, 405, 405, 405, 405]
--- response_headers eval
["Allow: POST, OPTIONS", "Allow: POST, OPTIONS", "Allow: GET, HEAD, OPTIONS",
 "Allow: GET, HEAD, OPTIONS", "Allow: POST, OPTIONS"]
--- response_body_like eval
['"code":"method_not_allowed"', 'use POST\.', 'use GET, HEAD\.', 'use GET, HEAD\.', 'use POST\.']



=== TEST 3: HEAD has no body
--- request
HEAD /v1/chat/completions
--- error_code: 405
--- response_headers
Allow: POST, OPTIONS
--- response_body:



=== TEST 4: media types
--- request eval
[map { "POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}' } 1 .. 7]
--- more_headers eval
["Content-Type: text/plain", "Content-Type: application/json; charset=utf-8",
 "Content-Type: APPLICATION/JSON", "Content-Type: application/jsonx",
 "Content-Encoding: gzip", "Content-Encoding: identity", ""]
--- error_code eval
[415, 200, 200, 415, 415, 200, 200]
--- response_body_like eval
['Content-Type must be application/json', 'T', 'T', '"code":"unsupported_media_type"',
 'Content-Encoding must be identity', 'T', 'T']



=== TEST 5: no JSON
--- request eval
["POST /v1/completions\n" . '{"prompt":"a"', "POST /v1/completions\n",
 "POST /v1/completions\n" . '[1]', "POST /v1/completions\n" . "{\"prompt\":\"\xff\"}",
 "POST /v1/completions\n" . '{"prompt":"a"} {}']
--- error_code eval
[400, 400, 400, 400, 400]
--- response_body_like eval
[('"type":"invalid_request_error"') x 5]



=== TEST 6: fields that are wrong
--- request eval
[map { "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"a"}],' . $_ . '}' }
 '"temperature":2.5', '"top_p":0', '"max_tokens":0', '"max_tokens":1.5', '"n":129',
 '"stop":["a",5]', '"logit_bias":{"256":1}', '"top_logprobs":21,"logprobs":true',
 '"stream_options":{"include_usage":true}', '"stop_token_ids":[256]']
--- error_code eval
[(400) x 10]
--- response_body_like eval
['"param":"temperature"', '"param":"top_p"', '"param":"max_tokens"', '"param":"max_tokens"',
 '"param":"n"', '"param":"stop', '"param":"logit_bias', '"param":"top_logprobs"',
 '"param":"stream_options"', '"param":"stop_token_ids']



=== TEST 7: messages that are wrong
--- request eval
[map { "POST /v1/chat/completions\n" . $_ } '{}', '{"messages":[]}',
 '{"messages":[{"role":"boss","content":"a"}]}', '{"messages":[{"role":"user"}]}']
--- error_code eval
[400, 400, 400, 400]
--- response_body_like eval
['"param":"messages"', '"param":"messages"', '"param":"messages\[0\].role"', '"param":"messages\[0\].content"']



=== TEST 8: what is not served is not ignored
--- request eval
[map { "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"a"}],' . $_ . '}' }
 '"tools":[{"type":"function","function":{"name":"f"}}]', '"response_format":{"type":"json_object"}',
 '"audio":{}']
--- error_code eval
[400, 400, 400]
--- response_body_like eval
['"param":"tools","code":"unsupported"', '"param":"response_format[^"]*","code":"unsupported"',
 '"param":"audio","code":"unsupported"']



=== TEST 9: unknown fields are ignored
--- request
POST /v1/completions
{"prompt":"a","max_tokens":1,"zebra":{"stripes":[1,2]}}



=== TEST 10: another model
--- request
POST /v1/completions
{"prompt":"a","model":"zebra"}
--- error_code: 404
--- response_body_like: \A\{"error":\{"message":"The model \\"zebra\\" does not exist.","type":"invalid_request_error","param":"model","code":"model_not_found"}}
--- error_log
refused with 404



=== TEST 11: a name that would forge a log line
--- log_level: info
--- request
POST /v1/completions
{"prompt":"a","model":"x\n2026/01/01 00:00:00 [notice] 1#1: forged"}
--- error_code: 404
--- error_log
The model "x?2026/01/01



=== TEST 12: too long, with both numbers
--- request eval
["POST /v1/completions\n" . '{"prompt":"' . 'x' x 64 . '"}',
 "POST /v1/completions\n" . '{"prompt":"' . 'x' x 1000 . '"}',
 "POST /v1/completions\n" . '{"prompt":"' . 'x' x 63 . '"}']
--- error_code eval
[400, 400, 200]
--- response_body_like eval
['64.*64.*"code":"context_length_exceeded"', '64.*1000.*"code":"context_length_exceeded"',
 '"completion_tokens":1,']



=== TEST 13: an empty prompt
--- request
POST /v1/completions
{"prompt":""}
--- error_code: 400
--- response_body_like: "param":"prompt"



=== TEST 14: too many stop ids
--- request eval
"POST /v1/completions\n" . '{"prompt":"a","stop_token_ids":[' . CORE::join(',', 1 .. 33) . ']}'
--- error_code: 400
--- response_body_like: "param":"stop_token_ids"



=== TEST 15: a variable with a value
--- http_config
mistral_model null { path null:; }
map $http_x_model $who { default $http_x_model; }
--- config
location /v1/ { mistral_pass $who; }
--- request
POST /v1/completions
{"prompt":"a","max_tokens":1}
--- more_headers
X-Model: null
--- response_body_like: "model":"null".*"text":"T"



=== TEST 16: a variable that names no model
--- http_config
mistral_model null { path null:; }
map $http_x_model $who { default $http_x_model; }
--- config
location /v1/ { mistral_pass $who; }
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}') x 2]
--- more_headers eval
["X-Model: zebra", ""]
--- error_code eval
[404, 404]
--- response_body_like eval
['The request names no model.*"code":"model_not_found"',
 '"code":"model_not_found"']
--- error_log
"mistral_pass" evaluates to



=== TEST 17: error_page with a page
--- config
location /v1/ {
    mistral_pass  null;
    error_page    404 /page.html;
    error_page    405 =200 /page.html;
}
location = /page.html { internal; root $TEST_NGINX_HTML_DIR; }
--- user_files
>>> page.html
a page
--- request eval
["GET /v1/zebra", "POST /v1/completions\n" . '{"prompt":"a","model":"zebra"}', "PUT /v1/completions"]
--- error_code eval
[404, 404, 200]
--- response_body eval
["a page\n", "a page\n", "a page\n"]



=== TEST 18: an error_page for another status
--- config
location /v1/ {
    mistral_pass  null;
    error_page    500 502 503 504 /page.html;
}
--- request
GET /v1/zebra
--- error_code: 404
--- response_body_like: "code":"unknown_url"



=== TEST 19: kept alive after each refusal with an unread body
--- pipelined_requests eval
["PUT /v1/completions\n" . 'x' x 5000, "POST /v1/zebra\n" . 'x' x 5000,
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}']
--- error_code eval
[405, 404, 200]
--- response_body_like eval
['POST', 'unknown_url', '"text":"T"']



=== TEST 20: too large a body
--- config
location /v1/ { mistral_pass null; client_max_body_size 1k; }
--- request eval
"POST /v1/completions\n" . '{"prompt":"' . 'x' x 2000 . '"}'
--- error_code: 413
--- response_headers
Content-Type: application/json
--- response_body_like: \A\{"error":\{"message":"[^"]+","type":"invalid_request_error","param":null,"code":"request_too_large"\}\}\n\z
--- error_log
client intended to send too large body



=== TEST 21: identifiers of tokens are checked
--- request eval
["POST /v1/completions\n" . '{"prompt":[1,2,256]}', "POST /v1/detokenize\n" . '{"tokens":[300]}',
 "POST /v1/completions\n" . '{"prompt":[-1]}']
--- error_code eval
[400, 400, 400]
--- response_body_like eval
['"param":"prompt\[2\]"', '"param":"tokens\[0\]"', '"param":"prompt\[0\]"']



=== TEST 22: nginx's own refusals of a located request
--- config
location /v1/ { mistral_pass null; auth_basic "x"; auth_basic_user_file $TEST_NGINX_HTML_DIR/users; }
location /no/ { mistral_pass null; deny all; }
location /gone/ { mistral_pass null; return 410; }
location /text/ { mistral_pass null; default_type text/html; return 503 "busy"; }
location /other/ { return 503; }
location = /page.html { internal; root $TEST_NGINX_HTML_DIR; }
location /paged/ { mistral_pass null; deny all; error_page 403 /page.html; }
--- user_files
>>> users
me:{PLAIN}secret
>>> page.html
a page
--- request eval
["POST /v1/completions\n{}", "POST /no/completions\n{}", "GET /gone/models", "GET /text/models",
 "GET /other/models", "GET /paged/models", "HEAD /no/models"]
--- error_code eval
[401, 403, 410, 503, 503, 403, 403]
--- response_headers eval
["WWW-Authenticate: Basic realm=\"x\"", "Content-Type: application/json", "Content-Type: application/json",
 "Content-Type: text/html", "Content-Type: text/html", "", "Content-Type: application/json"]
--- response_body_like eval
['"type":"authentication_error","param":null,"code":"unauthorized"', '"code":"forbidden"', '"code":"refused"',
 '\Abusy\z', '<html>', '\Aa page\n\z', '\A\z']



=== TEST 23: a broken chunk
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
--- error_code: 400
--- response_body_like: \A\{"error":.*"code":"bad_request"



=== TEST 24: too large a chunked body
--- config
location /v1/ { mistral_pass null; client_max_body_size 100; }
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n80\r\n" . 'x' x 128 . "\r\n0\r\n\r\n"
--- error_code: 413
--- response_body_like: "code":"request_too_large"
--- error_log
client intended to send too large chunked body



=== TEST 25: before there is a location
--- raw_request eval
"POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\n\r\n"
--- error_code: 400
--- response_body_like: "code":"bad_request"



=== TEST 26: too long a URI
--- raw_request eval
"GET /v1/models/" . 'x' x 9000 . " HTTP/1.1\r\nHost: a\r\n\r\n"
--- error_code: 414
--- response_body_like: "code":"uri_too_long"



=== TEST 27: too large a header
--- raw_request eval
"GET /v1/models HTTP/1.1\r\nHost: a\r\nX-A: " . 'x' x 9000 . "\r\n\r\n"
--- error_code: 400
--- response_body_like: "code":"bad_request"



=== TEST 28: which is not meant for a model
--- raw_request eval
"GET /zebra HTTP/1.1\r\nHost: a\r\nX-A: " . 'x' x 9000 . "\r\n\r\n"
--- error_code: 400
--- response_body_like: <html>



=== TEST 29: too slow a body
--- config
location /v1/ { mistral_pass null; client_body_timeout 200ms; }
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n{"
--- error_code: 408
--- response_headers
Connection: close
--- response_body_like: "code":"request_timeout"



=== TEST 30: a transfer coding that nginx does not know
--- raw_request eval
"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: gzip\r\n\r\n"
--- error_code: 501
--- response_headers
Content-Type: application/json
--- response_body_like: \A\{"error":.*"code":"not_implemented"



=== TEST 31: too slow a body, which nginx has no error_page for
--- config
location /v1/ {
    mistral_pass null;
    client_body_timeout 200ms;
    error_page 408 /page;
}
location = /page { return 200 page; }
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n{"
--- error_code: 408
--- response_headers
Connection: close
--- response_body_like: "code":"request_timeout"



=== TEST 32: no model named is the client's, no line for each at error
--- config
location /v1/ { mistral_pass $mistral_model; }
--- request
POST /v1/completions
{"prompt":"a","max_tokens":1}
--- error_code: 404
--- response_body_like: The request names no model
--- no_error_log
[error]
