# mistral_preread: variables of the body before the body's own turn.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:; context 100000; }
mistral_model other { path null:rate=20; context 4096; alias alias; }
log_format third '$connection_requests $status $mistral_model;';
log_format early '$status model=$mistral_model max=$mistral_max_tokens '
    'stream=$mistral_stream user=$mistral_user who=$mistral_effective_model '
    'kept=$kept id=$mistral_request_id;';
map $mistral_model:$mistral_max_tokens:$mistral_stream:$mistral_user:$mistral_messages $kept {
    default $mistral_model:$mistral_max_tokens:$mistral_stream:$mistral_user:$mistral_messages;
}
limit_req_zone $mistral_model zone=models:1m rate=1r/m;
limit_req_status 429;
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http . ($block->http_config // ''));
});

our $Other = ($ENV{TEST_NGINX_BINARY} // '/usr/sbin/nginx')
             ne '/usr/sbin/nginx';
our $Echo = 'load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;';
our $Long = join '', 1 .. 900;

ready_on();
run_tests();

__DATA__

=== TEST 1: limit_req by the body's model
--- config
location /v1/ {
    mistral_preread  on;
    limit_req        zone=models;
    mistral_pass     $mistral_model;
}
--- request eval
[map { "POST /v1/completions\n" . '{"model":"' . $_ . '","prompt":"a","max_tokens":2}' }
     qw/ null null other alias alias /]
--- error_code eval
[200, 429, 200, 200, 429]
--- response_body_like eval
['"Th"', '"code":"rate_limit_exceeded"', '"Th"', '"Th"', 'rate_limit']
--- no_error_log
see "mistral_preread"



=== TEST 2: not without it, and that is said once
--- config
location /v1/ {
    limit_req     zone=models;
    mistral_pass  $mistral_model;
    access_log    logs/access.log third;
}
--- raw_request eval
CORE::join '', map { "POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: $_\r\nContent-Length: 44\r\n\r\n"
               . '{"model":"null","prompt":"a","max_tokens":2}' } qw/ keep-alive keep-alive close /
--- response_body_like: "Th"
--- access_log eval
["1 200 null;", "2 200 null;", "3 200 null;"]
--- grep_error_log eval
qr/\[warn\].*has no value, see "mistral_preread"/
--- grep_error_log_out eval
qr/\A\[warn\] \S+ \S+ mistral: a variable of the body is used before the body was read[^\n]*\n\z/



=== TEST 3: refusals before the body are no mistake, and what is no body
--- config
location /v1/ {
    add_header    X-Model "$mistral_model" always;
    mistral_pass  null;
    access_log    logs/access.log early;
    location /v1/denied/ { deny all; mistral_pass null; }
}
location /plain { set $x $mistral_model; return 200 "plain $x"; }
--- request eval
["POST /v1/denied/completions\n{}", "GET /v1/models", "GET /plain", "POST /plain\n{}"]
--- error_code eval
[403, 200, 200, 200]
--- response_body_like eval
["forbidden", "null", "plain", "plain"]
--- no_error_log
see "mistral_preread"



=== TEST 4: variables before the handler are those after it
--- config
location /v1/ {
    mistral_preread  on;
    limit_req_dry_run  on;
    limit_req        zone=models;
    mistral_pass     null;
    access_log       logs/access.log early;
    auth_request     /ask;
    auth_request_set $early $upstream_http_x_early;
    add_header       X-Early $early;
}
location = /ask {
    internal;
    proxy_method             GET;
    proxy_pass               http://127.0.0.1:$TEST_NGINX_SERVER_PORT/early?$kept;
    proxy_pass_request_body  off;
    proxy_set_header         Content-Length "";
}
location = /early { add_header X-Early $args; return 204; }
--- request eval
["POST /v1/completions\n" . '{"model":"null","prompt":"a","max_tokens":2,"stream":true,"user":"me"}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"x"}],"max_new_tokens":3}',
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":null}',
 "POST /v1/tokenize\n" . '{"prompt":"a"}']
--- response_headers eval
["X-Early: null:2:1:me:", "X-Early: :1024:0::1", "X-Early: :16:0::", "X-Early: ::0::"]
--- response_body_like eval
["DONE", "The", "The", "count"]



=== TEST 5: a body without a limit
--- config
location /v1/ {
    mistral_preread  on;
    limit_req_dry_run  on;
    limit_req        zone=models;
    if ($arg_x) { return 200; }
    mistral_pass     null;
    access_log       logs/access.log early;
}
--- request
POST /v1/chat/completions
{"model":"zebra","messages":[]}
--- error_code: 400
--- response_body_like: "param":"messages"
--- access_log
400 model=- max=- stream=- user=- who=-



=== TEST 6: a temporary file, a chunked body, packets
--- config
client_body_buffer_size 1k;
location /v1/ {
    mistral_preread  on;
    limit_req        zone=models burst=100 nodelay;
    mistral_pass     $mistral_model;
}
location /file/ {
    mistral_preread           on;
    client_body_in_file_only  clean;
    mistral_pass              $mistral_model;
}
--- raw_request eval
["POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " . (80 + length $::Long) . "\r\n\r\n"
 . '{"model":"null",',
 '"prompt":"' . $::Long . '",',
 '"max_tokens":2, "stream":false, "n": 1, "echo":true}']
--- raw_request_middle_delay: 0.1
--- response_body_like eval
'"text":"' . $::Long . 'Th"'



=== TEST 7: files
--- config
client_body_buffer_size 1k;
location /v1/ { mistral_preread on; mistral_pass $mistral_model; }
location /file/ {
    mistral_preread           on;
    client_body_in_file_only  clean;
    mistral_pass              $mistral_model;
}
--- request eval
["POST /v1/completions\n" . '{"model":"null","prompt":"' . $::Long . '","max_tokens":2,"echo":true}',
 "POST /file/completions\n" . '{"model":"null","prompt":"' . $::Long . '","max_tokens":2,"echo":true}']
--- response_body_like eval
[('"text":"' . $::Long . 'Th"') x 2]



=== TEST 8: chunks, one at a time
--- config
location /v1/ { mistral_preread on; mistral_pass $mistral_model; }
--- raw_request eval
["POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" . '{"model":"null",' . "\r\n",
 "2b\r\n" . '"prompt":"abc","max_tokens":2,"echo":true} ' . "\r\n", "0\r\n\r\n"]
--- raw_request_middle_delay: 0.05
--- response_body_like: "text":"abcTh"



=== TEST 9: who may not ask learns nothing of the body's faults
--- config
location /v1/ {
    mistral_preread       on;
    auth_basic            "models";
    auth_basic_user_file  $TEST_NGINX_HTML_DIR/users;
    mistral_pass          null;
}
--- user_files
>>> users
me:{PLAIN}secret
--- request eval
[("POST /v1/completions\n{") x 2]
--- more_headers eval
["", "Authorization: Basic bWU6c2VjcmV0"]
--- error_code eval
[401, 400]
--- response_body_like eval
['"code":"unauthorized"', '"code":"invalid_json"']



=== TEST 10: what the handler refuses without a body is not read
--- config
location /v1/ {
    mistral_preread       on;
    client_max_body_size  40;
    mistral_pass          null;
    access_log            logs/access.log early;
}
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a"}') x 2, "POST /v1/zebra\n{}",
 "POST /v1/completions\n" . '{"prompt":"' . 'a' x 40 . '"}']
--- more_headers eval
["Content-Type: text/plain", "Content-Encoding: gzip", "", ""]
--- error_code eval
[415, 415, 404, 413]
--- response_body_like eval
["unsupported_media_type", "unsupported_media_type", "unknown_url",
 "request_too_large"]
--- access_log eval
qr/4\d\d model=- max=- stream=-/



=== TEST 11: too slow a body
--- config
location /v1/ { mistral_preread on; client_body_timeout 200ms; mistral_pass null; }
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n{"
--- error_code: 408
--- response_body_like: "code":"request_timeout"



=== TEST 12: another server by the body's model, the body intact
--- http_config
server {
    listen unix:$TEST_NGINX_HTML_DIR/socket;
    location / { mistral_pass other; access_log off; }
}
upstream remote { server unix:$TEST_NGINX_HTML_DIR/socket; }
map $mistral_model $backend { default none; alias remote; }
--- config
client_body_buffer_size 1k;
location /v1/ {
    mistral_preread  on;
    proxy_pass       http://$backend;
    access_log       logs/access.log early;
}
location = /metrics { mistral_status prometheus; }
--- request eval
["POST /v1/completions\n" . '{"model":"alias","prompt":"' . 'x' x 2000 . '","max_tokens":2,"echo":true}',
 "GET /metrics"]
--- response_body_like eval
['"text":"x{2000}Th"',
 'mistral_requests_total\{model="other",code="200"\} 1\n(?!.*model="[^o]?",code)']
--- access_log eval
qr/200 model=alias max=2 stream=0 user=- who=-|GET .metrics/



=== TEST 13: a fallback has the body, and the variables
--- http_config
server {
    listen unix:$TEST_NGINX_HTML_DIR/socket;
    location / { mistral_pass other; access_log off; }
}
mistral_model dead { path null:; engine_timeout 2s; }
--- config
location /v1/ {
    mistral_preread  on;
    mistral_pass     $arg_to;
    error_page       503 = @other;
}
location @other {
    mistral_preread  on;
    proxy_pass       http://unix:$TEST_NGINX_HTML_DIR/socket;
    access_log       logs/access.log early;
}
location = /status { mistral_status json; }
--- init
MistralTest::stop_engine('dead');
--- request
POST /v1/completions?to=dead
{"model":"other","prompt":"abc","max_tokens":2,"echo":true}
--- response_body_like: "text":"abcTh"
--- access_log
200 model=other max=2 stream=0 user=- who=dead



=== TEST 14: a mirror gets the body, too
--- config
location /v1/ { mistral_preread on; mirror /copy; mistral_pass null; }
location = /copy {
    internal;
    rewrite       ^ /copy/v1/completions break;
    mistral_pass  other;
}
location = /status { mistral_status json; }
--- request
POST /v1/completions
{"model":"null","prompt":"a","max_tokens":3}
--- response_body_like: "text":"The"
--- error_log eval
qr/refused with 404: The model .null. does not exist/



=== TEST 15: internal redirects go on with what was read
--- config
location /try/ { mistral_preread on; try_files /none @model; }
location /chat/ { mistral_preread on; try_files /none /v1/chat/completions; }
location @model {
    mistral_pass  $mistral_model;
    add_header    X-Early $mistral_model:$mistral_request_id;
}
location /v1/ { mistral_pass $mistral_model; }
--- request eval
["POST /try/completions\n" . '{"model":"null","prompt":"abc","max_tokens":2,"echo":true}',
 "POST /chat/completions\n" . '{"model":"null","messages":[{"role":"user","content":"hi"}],"max_tokens":3}',
 "POST /try/completions\n" . '{"model":']
--- error_code eval
[200, 200, 400]
--- response_body_like eval
['"text":"abcTh"', '"content":"The"', '"code":"invalid_json"']



=== TEST 16: limit_conn counts streams only
--- http_config
map $mistral_stream $streams { 1 all; default ""; }
limit_conn_zone $streams zone=streams:1m;
--- config
location /v1/ {
    mistral_preread    on;
    limit_conn         streams 1;
    limit_conn_status  429;
    mistral_pass       null;
}
location /slow/ {
    mistral_preread    on;
    limit_conn         streams 1;
    mistral_pass       other;
}
location = /status { mistral_status json; }
--- init
MistralTest::hold('/slow/completions', '{"prompt":"a","stream":true,"max_tokens":1000}');
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":2,"stream":true}',
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":2}']
--- error_code eval
[429, 200]
--- response_body_like eval
['rate_limit', '"Th"']



=== TEST 17: subrequests
--- main_config eval: $::Echo
--- config
location /v1/ { mistral_preread on; mistral_pass $mistral_model; }
location = /one {
    echo_subrequest  POST /v1/completions -b '{"model":"null","prompt":"a","max_tokens":3}';
    echo             " and";
    echo_subrequest  POST /v1/completions -b '{"model":"null","prompt":"a","max_tokens":2,"stream":true}';
}
location = /all {
    echo_subrequest_async  POST /v1/completions -b '{"model":"null","prompt":"a","max_tokens":3}';
    echo_subrequest_async  POST /v1/completions -b '{"model":"other","prompt":"a","max_tokens":4}';
    echo_subrequest_async  POST /v1/completions -b '{';
}
--- request eval
["GET /one", "GET /all"]
--- response_body_like eval
['\A\{[^\n]*"text":"The"[^\n]*\n? and\ndata: .*"text":"h".*DONE\]\n\n\z',
 '"text":"The".*"text":"The ".*"code":"invalid_json"']
--- skip_eval: 4: $::Other



=== TEST 18: an engine that is down is told without the body
--- http_config
mistral_model dead { path null:; engine_timeout 2s; }
--- config
location /v1/ {
    mistral_preread      on;
    client_body_timeout  5s;
    mistral_pass         dead;
}
location = /status { mistral_status json; }
--- init
MistralTest::stop_engine('dead');
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2000000\r\n\r\n{"
--- shutdown: 1
--- error_code: 503
--- response_body_like: engine_unavailable



=== TEST 19: inherited, and off again
--- config
mistral_preread on;
location /v1/ { limit_req zone=models; mistral_pass null; }
location /off/ { mistral_preread off; limit_req zone=models; mistral_pass null; }
--- request eval
[map { "POST $_/completions\n" . '{"model":"null","prompt":"a","max_tokens":2}' }
     qw{ /off /off /v1 /v1 }]
--- error_code eval
[200, 200, 200, 429]
--- response_body_like eval
['Th', 'Th', 'Th', 'rate_limit']



=== TEST 20: values
--- config
location /v1/ { mistral_preread maybe; mistral_pass null; }
--- must_die
--- error_log
invalid value "maybe"



=== TEST 21: the next request of the connection is another one
--- config
location /v1/ { mistral_preread on; mistral_pass $mistral_model; }
--- pipelined_requests eval
["POST /v1/completions\n" . '{"model":"null","prompt":"a","max_tokens":1}',
 "POST /v1/completions\n" . '{"model":"other","prompt":"a","max_tokens":2}']
--- response_body_like eval
['"model":"null".*"text":"T"', '"model":"other".*"text":"Th"']



=== TEST 22: auth: a body is read for who has a key, before the limits
--- user_files
>>> keys
alice:{SHA256}2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90
--- config
location /v1/ {
    mistral_preread        auth;
    mistral_auth_key       "models";
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    limit_req              zone=models;
    mistral_pass           $mistral_model;
    access_log             logs/access.log early;
}
location /none/ {
    mistral_preread  auth;
    limit_req        zone=models;
    mistral_pass     $mistral_model;
}
--- request eval
[map { "POST $_/completions\n" . '{"model":"null","prompt":"a","max_tokens":2}' }
     qw{ /v1 /v1 /v1 /v1 /none /none }]
--- more_headers eval
["Authorization: Bearer alice", "", "Authorization: Bearer bob",
 "Authorization: Bearer alice", "", ""]
--- error_code eval
[200, 401, 401, 429, 200, 200]
--- response_body_like eval
["Th", "error", "error", "rate_limit", "Th", "Th"]



=== TEST 23: auth: no body is read of who has none, whatever its length
--- user_files
>>> keys
alice:{SHA256}2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90
--- config
location /v1/ {
    mistral_preread        auth;
    mistral_auth_key       "models";
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2000000\r\n\r\n{"
--- shutdown: 1
--- error_code: 401
--- response_body_like: error



=== TEST 24: auth: satisfy any, the handler reads for who may without a key
--- user_files
>>> keys
alice:{SHA256}2bd806c97f0e00af1a1fc3328fa763a9269723c8db8fac4f93af71db186d6e90
--- config
location /v1/ {
    satisfy                any;
    allow                  127.0.0.1;
    deny                   all;
    mistral_preread        auth;
    mistral_auth_key       "models";
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":2}') x 2]
--- more_headers eval
["", "Authorization: Bearer alice"]
--- error_code eval
[200, 200]
--- response_body_like eval
["Th", "Th"]
