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

# Debian's modules are built for Debian's nginx

our $Other = `'@{[ $ENV{TEST_NGINX_BINARY} // '/usr/sbin/nginx' ]}' -V 2>&1`
             ne `/usr/sbin/nginx -V 2>&1`;
our $Echo = 'load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;';
our $Lua = 'load_module /usr/lib/nginx/modules/ndk_http_module.so;'
           . 'load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;';

# a second server that has the same API, by a model of its own

our $Second = <<'EOC';
mistral_model second { path null:; context 100000; }
server {
    listen unix:$TEST_NGINX_HTML_DIR/socket;
    location /v1/ { mistral_pass second; }
}
EOC

our $Long = join '', 1 .. 900;

certificate();
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
["X-Key: 1", "X-Key: 3"]
--- response_headers eval
["X-Mistral-Model: null", "X-Mistral-Model: slow"]
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
location /get/ { mistral_pass null; limit_except GET { deny all; } }
--- request eval
["POST /v1/completions\n{}", "POST /get/completions\n{}", "GET /get/models"]
--- error_code eval
[403, 403, 200]
--- response_body_like eval
['"code":"forbidden"', '"code":"forbidden"', '"id":"null"']



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



=== TEST 15: satisfy any: an address or a password
--- config
location /v1/ {
    mistral_pass          null;
    satisfy               any;
    deny                  all;
    auth_basic            "models";
    auth_basic_user_file  $TEST_NGINX_HTML_DIR/users;
}
location /all/ {
    mistral_pass          null;
    satisfy               all;
    deny                  all;
    auth_basic            "models";
    auth_basic_user_file  $TEST_NGINX_HTML_DIR/users;
}
--- user_files
>>> users
me:{PLAIN}secret
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}') x 2,
 "POST /all/completions\n" . '{"prompt":"a","max_tokens":1}']
--- more_headers eval
["Authorization: Basic bWU6c2VjcmV0", "", "Authorization: Basic bWU6c2VjcmV0"]
--- error_code eval
[200, 401, 403]
--- response_body_like eval
['"text":"T"', '"code":"unauthorized"', '"code":"forbidden"']



=== TEST 16: auth_request says no, and names the model
--- http_config
server {
    listen unix:$TEST_NGINX_HTML_DIR/socket;
    if ($http_authorization = "") { return 401; }
    location / { add_header X-Choice slow; return 204; }
}
--- config
location /v1/ {
    auth_request      /check;
    auth_request_set  $model $upstream_http_x_choice;
    mistral_pass      $model;
}
location = /check {
    internal;
    proxy_pass               http://unix:$TEST_NGINX_HTML_DIR/socket;
    proxy_pass_request_body  off;
    proxy_set_header         Content-Length "";
}
--- request eval
[("POST /v1/completions\n" . '{"prompt":"abc","max_tokens":2}') x 2]
--- more_headers eval
["", "Authorization: Bearer x"]
--- error_code eval
[401, 200]
--- response_headers eval
["Content-Type: application/json", "X-Mistral-Model: slow"]
--- response_body_like eval
['"code":"unauthorized"', '"text":"Th".*"prompt_tokens":3']



=== TEST 17: limit_conn counts a stream until its end
--- http_config
mistral_model long { path null:rate=20; context 4096; }
limit_conn_zone $server_name zone=c:1m;
--- config
location /v1/ { mistral_pass long; limit_conn c 1; limit_conn_status 429; }
location /free/ { mistral_pass long; }
location = /status { mistral_status json; }
--- init
MistralTest::hold('/v1/completions', '{"prompt":"a","max_tokens":4000,"stream":true}');
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}', "POST /free/completions\n" . '{"prompt":"a","max_tokens":1}']
--- error_code eval
[429, 200]
--- response_body_like eval
['"code":"rate_limit_exceeded"', '"text":"T"']



=== TEST 18: map chooses the model, a value without one is 404
--- http_config
map $http_x_plan $plan { gold slow; free null; default none; }
--- config
location /v1/ { mistral_pass $plan; }
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}') x 3]
--- more_headers eval
["X-Plan: gold", "X-Plan: free", "X-Plan: bronze"]
--- error_code eval
[200, 200, 404]
--- response_headers eval
["X-Mistral-Model: slow", "X-Mistral-Model: null", "! X-Mistral-Model"]
--- response_body_like eval
["T", "T", '"code":"model_not_found"']



=== TEST 19: engine down: the whole body goes to a second server
--- http_config eval
$::Second . 'mistral_model dead { path null:; context 4096; engine_timeout 2s; }'
--- config
location /v1/ {
    mistral_pass             dead;
    client_body_buffer_size  64k;
    error_page               503 = @second;
}
location /file/ {
    mistral_pass             dead;
    client_body_buffer_size  1k;
    error_page               503 = @second;
}
location @second {
    rewrite     ^/[a-z0-9]+/(.*) /v1/$1 break;
    proxy_pass  http://unix:$TEST_NGINX_HTML_DIR/socket;
}
location = /status { mistral_status json; }
--- init
MistralTest::stop_engine('dead');
--- request eval
["POST /v1/completions\n" . '{"prompt":"' . $::Long . '","max_tokens":2,"echo":true}',
 "POST /file/completions\n" . '{"prompt":"' . $::Long . '","max_tokens":2,"echo":true}',
 "POST /v1/completions\n" . '{"prompt":"abc","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}']
--- response_headers eval
[("X-Mistral-Model: second") x 3]
--- response_body_like eval
['"text":"' . $::Long . 'Th"', '"text":"' . $::Long . 'Th"',
 '"text":"T".*"text":"h".*"prompt_tokens":3.*DONE']



=== TEST 20: killed before the first byte: the body goes to another model
--- http_config
mistral_model weak { path null:delay=5000; context 4096; }
log_format all '$status $mistral_effective_model $mistral_prompt_tokens+$mistral_completion_tokens';
--- config
location /v1/ { mistral_pass weak; error_page 503 = @other; }
location @other { mistral_pass null; access_log logs/access.log all; }
location = /status { access_log off; mistral_status json; }
--- init
MistralTest::kill_at_work('weak');
--- request
POST /v1/completions
{"prompt":"intact","max_tokens":2,"echo":true}
--- response_headers
X-Mistral-Model: null
--- response_body_like: "text":"intactTh"
--- access_log
200 null 6+2
--- error_log
[alert]
exited on signal 9



=== TEST 21: killed before the first byte: a second server streams
--- http_config eval
$::Second . 'mistral_model weak { path null:delay=5000; context 100000; }'
--- config
location /v1/ {
    mistral_pass             weak;
    client_body_buffer_size  1k;
    error_page               503 = @second;
}
location @second {
    proxy_pass          http://unix:$TEST_NGINX_HTML_DIR/socket;
    proxy_http_version  1.1;
}
location = /status { mistral_status json; }
--- init
MistralTest::kill_at_work('weak');
--- request eval
"POST /v1/completions\n" . '{"prompt":"' . 'x' x 5000 . '","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}'
--- response_headers
X-Mistral-Model: second
--- response_body_like: \Adata: .*"text":"T".*"text":"h".*"prompt_tokens":5000.*DONE\]\n\n\z
--- error_log
[alert]
exited on signal 9



=== TEST 22: try_files and X-Accel-Redirect, which read the body before
--- http_config
server {
    listen unix:$TEST_NGINX_HTML_DIR/socket;
    location / { add_header X-Accel-Redirect @model; return 204; }
}
--- config
location /try/ { try_files /none @model; }
location /ask/ { proxy_pass http://unix:$TEST_NGINX_HTML_DIR/socket; }
location @model { mistral_pass null; }
--- request eval
["POST /try/completions\n" . '{"prompt":"abc","max_tokens":2,"echo":true}',
 "POST /ask/completions\n" . '{"prompt":"abc","max_tokens":2,"echo":true}']
--- response_body_like eval
[('"text":"abcTh"') x 2]



=== TEST 23: every variable in an access log that has if=
--- http_config
log_format all '$mistral_api|$mistral_model|$mistral_effective_model|'
    '$mistral_request_id|$mistral_stream|$mistral_max_tokens|$mistral_user|'
    '$mistral_prompt_tokens|$mistral_cached_tokens|'
    '$mistral_completion_tokens|$mistral_total_tokens|'
    '$mistral_finish_reason|$mistral_queue_time|$mistral_prefill_time|'
    '$mistral_decode_time|$mistral_ttft|$mistral_tpot|'
    '$mistral_preemptions|$mistral_shed_reason;';
map $mistral_completion_tokens $long { default 0; ~^[1-9][0-9] 1; }
--- config
location /v1/ {
    mistral_pass  null;
    access_log    logs/access.log all if=$long;
}
--- request
POST /v1/completions
{"prompt":"a","user":"u12","max_tokens":12}
--- response_body_like: "text":"The quick br"
--- access_log eval
qr/^completion\|-\|null\|cmpl-[0-9a-f]{32}\|0\|12\|u12\|1\|0\|12\|13\|length(?:\|\d+\.\d{3}){5}\|0\|-;$/m



=== TEST 24: an answer that if= leaves out
--- http_config
log_format all 'user=$mistral_user';
map $mistral_completion_tokens $long { default 0; ~^[1-9][0-9] 1; }
--- config
location /v1/ {
    mistral_pass  null;
    access_log    logs/access.log all if=$long;
}
--- request eval
[map { "POST /v1/completions\n" . '{"prompt":"a","user":"u' . $_ . '","max_tokens":' . $_ . '}' } 3, 12]
--- response_body_like eval
['"text":"The"', '"text":"The quick br"']
--- no_access_log
user=u3
--- wait: 0.1



=== TEST 25: the body's variables in a log behind redirects
--- http_config
log_format body '$status $request_method $mistral_api model=$mistral_model '
    'user=$mistral_user stream=$mistral_stream id=$mistral_request_id '
    'shed=$mistral_shed_reason body=$request_body';
--- config
location /v1/ { mistral_pass null; error_page 404 = @page; }
location /uri/ { mistral_pass null; error_page 404 /page; }
location @page { access_log logs/access.log body; return 200 "no\n"; }
location = /page { access_log logs/access.log body; return 404 "none\n"; }
--- request eval
["POST /v1/completions\n" . '{"model":"zebra","user":"me","stream":true,"prompt":"a"}',
 "POST /uri/completions\n" . '{"model":"okapi","user":"you","prompt":"a"}']
--- error_code eval
[200, 404]
--- response_body eval
["no\n", "none\n"]
--- access_log eval
qr/200 POST completion model=zebra user=me stream=1 id=cmpl-[0-9a-f]{32} shed=- body=\{\\x22model\\x22:\\x22zebra|404 GET completion model=okapi user=you stream=0 id=cmpl-[0-9a-f]{32} shed=- body=\{\\x22model\\x22:\\x22okapi/



=== TEST 26: SSL, whole and streamed
--- http_config
server {
    listen               unix:$TEST_NGINX_HTML_DIR/socket ssl;
    ssl_certificate      $TEST_NGINX_CERT/crt;
    ssl_certificate_key  $TEST_NGINX_CERT/key;
    location /v1/ { mistral_pass null; }
}
--- config
location /v1/ {
    proxy_pass                     https://unix:$TEST_NGINX_HTML_DIR/socket;
    proxy_ssl_verify               on;
    proxy_ssl_name                 localhost;
    proxy_ssl_trusted_certificate  $TEST_NGINX_CERT/crt;
}
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":900}',
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":900,"stream":true}']
--- response_body_like eval
['"text":"' . ::fox(900) . '"', '"text":"T".*DONE\]\n\n\z']



=== TEST 27: http2 over SSL, by curl
--- http_config
server {
    listen               unix:$TEST_NGINX_HTML_DIR/socket ssl http2;
    ssl_certificate      $TEST_NGINX_CERT/crt;
    ssl_certificate_key  $TEST_NGINX_CERT/key;
    location /v1/ { mistral_pass null; }
}
--- config
--- init
my @tls = ('--http2', '--cacert', "$ENV{TEST_NGINX_CERT}/crt");
my $url = 'https://localhost/v1/completions';

main::like(MistralTest::curl($url, '{"prompt":"a","max_tokens":900}', @tls),
           qr/"text":"\Q${\ main::fox(900) }\E".*\n200 HTTP\/2\z/s,
           'whole');
main::like(MistralTest::curl($url, '{"prompt":"a","max_tokens":9,"stream":true}',
                             @tls),
           qr/\Adata: .*"text":"T".*data: \[DONE\]\n\n\n200 HTTP\/2\z/s,
           'streamed');
main::like(MistralTest::curl($url, '{"prompt":"a","n":0}', @tls),
           qr/"param":"n".*\n400 HTTP\/2\z/s, 'refused');
--- request
GET /ready
--- response_body_like: .



=== TEST 28: echo: subrequests with bodies, one after the other and at once
--- main_config eval: $::Echo
--- config
location /v1/ { mistral_pass null; }
location = /one {
    echo_subrequest  POST /v1/completions -b '{"prompt":"a","max_tokens":3}';
    echo             " and";
    echo_subrequest  POST /v1/completions -b '{"prompt":"a","max_tokens":2,"stream":true}';
}
location = /all {
    echo_subrequest_async  POST /v1/completions -b '{"prompt":"a","max_tokens":3}';
    echo_subrequest_async  POST /v1/completions -b '{"prompt":"a","max_tokens":4}';
    echo_subrequest_async  POST /v1/zebra -b '{}';
}
--- request eval
["GET /one", "GET /all"]
--- response_body_like eval
['\A\{[^\n]*"text":"The"[^\n]*\n? and\ndata: .*"text":"h".*DONE\]\n\n\z',
 '"text":"The".*"text":"The ".*"code":"unknown_url"']
--- skip_eval: 4: $::Other



=== TEST 29: echo_exec, and the body in echo's hands first
--- main_config eval: $::Echo
--- config
location /v1/ { mistral_pass null; }
location = /ask { echo_read_request_body; echo_exec /v1/completions; }
--- request
POST /ask
{"prompt":"abc","max_tokens":2,"echo":true}
--- response_body_like: "text":"abcTh"
--- skip_eval: 2: $::Other



=== TEST 30: lua: captured subrequests, alone and together
--- main_config eval: $::Lua
--- config
location /v1/ { mistral_pass null; }
location = /lua {
    content_by_lua_block {
        local post = { method = ngx.HTTP_POST,
                       body = '{"prompt":"a","max_tokens":3}' }
        local one = ngx.location.capture("/v1/completions", post)
        local two, three = ngx.location.capture_multi({
            { "/v1/completions", post }, { "/v1/zebra", post } })

        ngx.say(one.status, " ", one.header["X-Mistral-Model"], " ", one.body)
        ngx.say(two.status, " ", two.body)
        ngx.say(three.status, " ", three.body)
    }
}
--- request
GET /lua
--- response_body_like chomp
\A200 null \{[^\n]*"text":"The"[^\n]*\n+200 \{[^\n]*"text":"The"[^\n]*\n+404 \{[^\n]*unknown_url.*
--- skip_eval: 2: $::Other



=== TEST 31: lua in every phase around an answer
--- main_config eval: $::Lua
--- config
location /v1/ {
    set $model "";
    rewrite_by_lua_block {
        ngx.req.read_body()
        ngx.var.model = ngx.req.get_body_data():find("vip") and "slow" or "null"
    }
    access_by_lua_block {
        if ngx.req.get_headers()["X-Out"] then return ngx.exit(403) end
    }
    mistral_pass $model;
    header_filter_by_lua_block {
        ngx.header["X-By"] = ngx.var.mistral_effective_model
    }
    body_filter_by_lua_block {
        if ngx.arg[1] then ngx.arg[1] = ngx.arg[1]:gsub("quick", "rapid") end
    }
    log_by_lua_block {
        ngx.log(ngx.NOTICE, "tokens=", ngx.var.mistral_completion_tokens,
                " finish=", ngx.var.mistral_finish_reason)
    }
}
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","user":"vip","max_tokens":9}',
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":9}',
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":9}']
--- more_headers eval
["", "", "X-Out: 1"]
--- error_code eval
[200, 200, 403]
--- response_headers eval
["X-By: slow", "X-By: null", ""]
--- response_body_like eval
['"text":"The rapid"', '"text":"The rapid"', '"code":"forbidden"']
--- error_log eval
qr/tokens=(9 finish=length|nil finish=nil)/
--- skip_eval: 12: $::Other



=== TEST 32: keys in a map, refused without one (conf.d/keys.conf)
--- http_config
map $http_authorization $key_owner { default ""; "Bearer sk-1" alice; }
--- config
location /v1/ {
    if ($key_owner = "") {
        return 401;
    }
    mistral_pass null;
    add_header   X-Owner $key_owner;
}
--- request eval
[("POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}') x 3]
--- more_headers eval
["Authorization: Bearer sk-1", "Authorization: Bearer sk-2", ""]
--- error_code eval
[200, 401, 401]
--- response_headers eval
["X-Owner: alice", "! X-Owner", "! X-Owner"]
--- response_body_like eval
['"text":"T"', ('"type":"authentication_error".*"code":"unauthorized"') x 2]



=== TEST 33: a backup gets the body of what is refused (conf.d/fallback.conf)
--- http_config
mistral_model busy { path null:delay=600000; max_batch 1; }
--- config
location = /status { mistral_status json; }
location /v1/ {
    mistral_pass   busy;
    mistral_queue  0;
    error_page     503 = @backup;
}
location @backup {
    rewrite            ^/v1/(.*)$ /b/$1 break;
    proxy_pass         http://127.0.0.1:$TEST_NGINX_SERVER_PORT;
    proxy_buffering    off;
    add_header         X-Answered-By backup always;
}
location /b/ { mistral_pass null; }
--- init
MistralTest::hold('/v1/completions', '{"prompt":"x"}');
--- request eval
["POST /v1/completions\n" . '{"prompt":"ab","echo":true,"max_tokens":2}',
 "POST /v1/completions\n" . '{"prompt":"' . 'x' x 9000 . '","max_tokens":3}',
 "POST /v1/completions\n" . '{"prompt":1}']
--- error_code eval
[200, 400, 400]
--- response_headers eval
["X-Answered-By: backup\nX-Mistral-Model: null", "! X-Mistral-Shed-Reason",
 "! X-Answered-By"]
--- response_body_like eval
['"text":"abTh"', '9000', 'prompt is 1']
