# mistral_tag, and the ids by which a request is found again.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:; context 4096; }
log_format tags '$status team=$mistral_tag_team run=$mistral_tag_run '
    'tokens=$mistral_tag_tokens;';
log_format ids 'trace=$mistral_trace_id span=$mistral_span_id '
    'parent=$mistral_parent_id context=$mistral_traceparent '
    'client=$mistral_client_request_id id=$mistral_request_id;';
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http) if !defined $block->http_config;
    $block->set_value('config', <<'EOC') if !defined $block->config;
location /v1/ { mistral_pass null; access_log logs/access.log ids; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: a tag in the log, in a header and in a map
--- http_config eval
$::Http . 'map $mistral_tag_team $known { red yes; default no; }'
--- config
location /v1/ {
    mistral_tag   team $http_x_team;
    mistral_tag   run "r-$arg_run";
    mistral_tag   tokens $mistral_total_tokens;
    add_header    X-Tag "$mistral_tag_team,$known" always;
    mistral_pass  null;
    access_log    logs/access.log tags;
}
--- request
POST /v1/completions?run=7
{"prompt":"hi","max_tokens":3}
--- more_headers
X-Team: red
--- response_headers
X-Tag: red,yes
--- access_log
200 team=red run=r-7 tokens=5;



=== TEST 2: a tag without a value, and one that is no tag
--- config
location /v1/ {
    mistral_tag   team $http_x_team;
    mistral_pass  null;
    access_log    logs/access.log tags;
}
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":1}
--- access_log
200 team=- run=- tokens=-;



=== TEST 3: inherited as a whole, replaced as a whole
--- config
mistral_tag team server;
mistral_tag run server;
location /v1/ { mistral_pass null; access_log logs/access.log tags; }
location /own/ { mistral_tag team own; mistral_pass null; access_log logs/access.log tags; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"hi","max_tokens":1}',
 "POST /own/completions\n" . '{"prompt":"hi","max_tokens":1}']
--- access_log eval
qr/team=(server run=server|own run=-)/
--- response_body_like eval
["T", "T"]



=== TEST 4: the tags of the location that answered, behind an error_page
--- config
location /v1/ {
    mistral_tag   team first;
    mistral_pass  null;
    error_page    404 = @page;
}
location @page {
    mistral_tag   team second;
    mistral_tag   run page;
    return 200 "$mistral_tag_team $mistral_tag_run";
}
--- request
POST /v1/completions
{"prompt":"hi","model":"zebra"}
--- response_body chomp
first page



=== TEST 5: a hostile value stays in its line
--- config
location /v1/ {
    mistral_tag   team $arg_team;
    mistral_pass  null;
    access_log    logs/access.log tags;
}
--- request
POST /v1/completions?team=a%0Ab"\x01
{"prompt":"hi","max_tokens":1}
--- access_log eval
qr/200 team=a%0Ab(\\x22|")\S* run=-/



=== TEST 6: names
--- config
location /v1/ { mistral_tag Team x; mistral_pass null; }
--- must_die
--- error_log
invalid tag "Team", it must be 1 to 32 lower-case letters, digits and "_"



=== TEST 7: twice
--- config
location /v1/ { mistral_tag a x; mistral_tag a y; mistral_pass null; }
--- must_die
--- error_log
duplicate tag "a"



=== TEST 8: ids of our own
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":1}
--- raw_response_headers_like eval
qr/X-Request-ID: cmpl-[0-9a-f]{32}\r\nX-Trace-ID: (?!0{32})[0-9a-f]{32}\r\n/
--- access_log eval
qr/trace=([0-9a-f]{32}) span=([0-9a-f]{16}) parent=- context=00-\1-\2-01 client=- id=cmpl-[0-9a-f]{32};/



=== TEST 9: a trace and a request that are the client's
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":1,"stream":true}
--- more_headers
traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00
X-Trace-ID: not-this
X-Request-ID: my/request-1
--- response_headers
X-Trace-ID: 4bf92f3577b34da6a3ce929d0e0e4736
X-Request-ID: my/request-1
--- response_body_like: "id":"cmpl-[0-9a-f]{32}"
--- access_log eval
qr/trace=4bf92f3577b34da6a3ce929d0e0e4736 span=(?!00f067aa)([0-9a-f]{16}) parent=00f067aa0ba902b7 context=00-4bf92f3577b34da6a3ce929d0e0e4736-\1-00 client=my\/request-1 id=cmpl-/



=== TEST 10: X-Trace-ID, of any form and of traceparent's
--- request eval
[("POST /v1/completions\n" . '{"prompt":"hi","max_tokens":1}') x 2]
--- more_headers eval
["X-Trace-ID: order-17.a", "X-Trace-ID: " . "0a" x 16]
--- response_headers eval
["X-Trace-ID: order-17.a", "X-Trace-ID: " . "0a" x 16]
--- response_body_like eval
["T", "T"]
--- access_log eval
qr/trace=(order-17\.a span=\w{16} parent=- context=-|(?:0a){16} span=(\w{16}) parent=- context=00-(?:0a){16}-\2-01) client/



=== TEST 11: what is no traceparent
--- request eval
[("POST /v1/completions\n" . '{"prompt":"hi","max_tokens":1}') x 8]
--- more_headers eval
["traceparent: 00-" . "0" x 32 . "-00f067aa0ba902b7-01",
 "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-" . "0" x 16 . "-01",
 "traceparent: ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
 "traceparent: 00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
 "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
 "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
 "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n"
 . "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
 "traceparent:"]
--- response_body_like eval
[("T") x 8]
--- raw_response_headers_unlike eval
[("4bf92f") x 8]
--- no_access_log
parent=00f067



=== TEST 12: a later version of traceparent
--- request eval
[("POST /v1/completions\n" . '{"prompt":"hi","max_tokens":1}') x 2]
--- more_headers eval
["traceparent: 01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03-more",
 "traceparent: 01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe"]
--- response_headers eval
[("X-Trace-ID: 4bf92f3577b34da6a3ce929d0e0e4736") x 2]
--- response_body_like eval
["T", "T"]
--- access_log eval
qr/context=00-4bf92f3577b34da6a3ce929d0e0e4736-\w{16}-0[01] /



=== TEST 13: ids that are no tokens are not echoed
--- request eval
[("POST /v1/completions\n" . '{"prompt":"hi","max_tokens":1}') x 4]
--- more_headers eval
["X-Request-ID: a b", "X-Request-ID: " . "a" x 129,
 "X-Request-ID: <script>", "X-Request-ID: a\nX-Request-ID: b"]
--- response_headers_like eval
[("X-Request-ID: cmpl-[0-9a-f]{32}") x 4]
--- response_body_like eval
[("T") x 4]
--- no_access_log eval
qr/client=[^-]/



=== TEST 14: refusals, nginx's own too, and what has no id
--- config
location /v1/ { mistral_pass null; client_max_body_size 50; }
location /denied/ { mistral_pass null; deny all; }
location /other { return 200 other; }
--- request eval
["POST /v1/completions\n{", "POST /v1/completions\n" . "x" x 60,
 "POST /denied/completions\n{}", "GET /v1/models", "GET /other"]
--- more_headers eval
[("X-Trace-ID: t-1") x 5]
--- error_code eval
[400, 413, 403, 200, 200]
--- response_headers_like eval
["X-Request-ID: cmpl-[0-9a-f]{32}\nX-Trace-ID: t-1",
 "X-Request-ID: t-1\nX-Trace-ID: t-1",
 "X-Request-ID: t-1\nX-Trace-ID: t-1", "X-Request-ID: t-1\nX-Trace-ID: t-1",
 ""]
--- response_body_like eval
["error", "error", "error", "null", "other"]



=== TEST 15: the trace goes on to a fallback, the other server's id stays
--- http_config eval
$::Http . <<'EOC';
server {
    listen unix:$TEST_NGINX_HTML_DIR/other.sock;
    location / {
        add_header X-Request-ID other-1;
        return 200 "got $http_traceparent";
    }
}
EOC
--- config
location /v1/ {
    mistral_pass  null;
    error_page    404 = @other;
}
location @other {
    proxy_set_header  traceparent $mistral_traceparent;
    proxy_pass        http://unix:$TEST_NGINX_HTML_DIR/other.sock;
}
--- request
POST /v1/completions
{"prompt":"hi","model":"zebra"}
--- more_headers
traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
--- response_headers
X-Request-ID: other-1
X-Trace-ID: 4bf92f3577b34da6a3ce929d0e0e4736
--- response_body_like: got 00-4bf92f3577b34da6a3ce929d0e0e4736-(?!00f067)[0-9a-f]{16}-01
