# $mistral_* in the access log.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:; context 4096; alias nil; }
mistral_model slow { path null:rate=50,delay=100,len=11; }
mistral_model one { path null:delay=300; max_batch 1; }
log_format counts '$status api=$mistral_api model=$mistral_model '
    'effective=$mistral_effective_model stream=$mistral_stream '
    'user=$mistral_user max=$mistral_max_tokens '
    'prompt=$mistral_prompt_tokens cached=$mistral_cached_tokens '
    'completion=$mistral_completion_tokens total=$mistral_total_tokens '
    'finish=$mistral_finish_reason preempted=$mistral_preemptions '
    'shed=$mistral_shed_reason;';
log_format id 'id=$mistral_request_id sent=$sent_http_x_request_id;';
log_format times 'queue=$mistral_queue_time prefill=$mistral_prefill_time '
    'decode=$mistral_decode_time ttft=$mistral_ttft tpot=$mistral_tpot;';
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http);
    $block->set_value('config', <<'EOC') if !defined $block->config;
location /v1/ {
    mistral_pass null;
    access_log logs/access.log counts;
}
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: an answer
--- request
POST /v1/chat/completions
{"model":"nil","user":"u-7","messages":[{"role":"user","content":"hi"}],"max_tokens":6}
--- response_body_like: The qu
--- access_log
200 api=chat model=nil effective=null stream=0 user=u-7 max=6 prompt=20 cached=0 completion=6 total=26 finish=length preempted=0 shed=-;



=== TEST 2: a stream
--- request
POST /v1/completions
{"prompt":"hi","stream":true,"stop":"qu"}
--- response_body_like: DONE
--- access_log
200 api=completion model=- effective=null stream=1 user=- max=16 prompt=2 cached=0 completion=6 total=8 finish=stop preempted=0 shed=-;



=== TEST 3: a refusal before and after the body was understood
--- request eval
["POST /v1/completions\n{", "POST /v1/completions\n" . '{"prompt":"hi","model":"zebra","user":"me"}']
--- error_code eval
[400, 404]
--- response_body_like eval
['error', 'error']
--- access_log eval
qr/40[04] api=completion model=(-|zebra) effective=- stream=[0-] user=(-|me) max=(-|16) prompt=- cached=- completion=- total=- finish=- preempted=- shed=-;/



=== TEST 4: what is no answer
--- request eval
["GET /v1/models", "GET /v1/models/nil", "POST /v1/tokenize\n" . '{"prompt":"hi"}',
 "POST /v1/detokenize\n" . '{"tokens":[65]}']
--- response_body_like eval
['null', 'nil', 'count', 'A']
--- access_log eval
qr/200 api=(models|model|tokenize|detokenize) model=- effective=(-|null) stream=[0-] user=- max=- prompt=-/



=== TEST 5: the id is the answer's
--- config
location /v1/ { mistral_pass null; access_log logs/access.log id; }
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":1}
--- access_log eval
qr/id=(cmpl-[0-9a-f]{32}) sent=\1;/



=== TEST 6: times
--- config
location /v1/ { mistral_pass slow; access_log logs/access.log times; }
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":100}
--- access_log eval
qr/queue=\d+\.\d{3} prefill=(?!0\.0)\d+\.\d{3} decode=(?!0\.[01])\d+\.\d{3} ttft=(?!0\.0)\d+\.\d{3} tpot=(?!0\.00|0\.01)\d+\.\d{3};/



=== TEST 7: times of a refusal are not known
--- config
location /v1/ { mistral_pass slow; access_log logs/access.log times; }
--- request
POST /v1/completions
{}
--- error_code: 400
--- access_log
queue=- prefill=- decode=- ttft=- tpot=-;



=== TEST 8: a value that was asked for too early is not kept
--- config
location /v1/ {
    mistral_pass  slow;
    add_header    X-Tokens "$mistral_completion_tokens,$mistral_finish_reason" always;
    access_log    logs/access.log counts;
}
--- request
POST /v1/completions
{"prompt":"hi","stream":true}
--- response_headers
X-Tokens: 1,
--- response_body_like: DONE
--- access_log
completion=11 total=13 finish=stop



=== TEST 9: behind an error_page, where the context is another one
--- config
location /v1/ {
    mistral_pass  null;
    error_page    404 = @page;
    access_log    logs/access.log counts;
}
location @page {
    return 200 "model $mistral_model, api $mistral_api";
    access_log    logs/access.log counts;
}
--- request
POST /v1/completions
{"prompt":"hi","model":"zebra"}
--- response_body: model zebra, api completion
--- access_log
200 api=completion model=zebra effective=-



=== TEST 10: map and log conditions
--- config
location /v1/ {
    mistral_pass  null;
    access_log    logs/access.log counts if=$mistral_completion_tokens;
}
--- request eval
["POST /v1/completions\n" . '{"prompt":"hi","max_tokens":2}', "POST /v1/completions\n{}"]
--- error_code eval
[200, 400]
--- response_body_like eval
['Th', 'prompt']
--- no_access_log
400 api=



=== TEST 11: a client's strings make no headers of their own
--- config
location /v1/ {
    mistral_pass  null;
    add_header    X-User "$mistral_user;" always;
    error_page    404 = @elsewhere;
}
location @elsewhere {
    proxy_pass        http://127.0.0.1:$server_port/seen?;
    proxy_set_header  X-User  $mistral_user;
    proxy_set_header  X-Model $mistral_model;
}
location /seen {
    return 200 "user $http_x_user, model $http_x_model, evil $http_x_evil.";
}
--- request eval
[map { "POST /v1/completions\n" . qq({"prompt":"hi","max_tokens":3,$_}) }
 '"user":"a\r\nX-Evil: 1\u0000\u007f"',
 '"user":"a\nX-Evil: 2","model":"b\r\nX-Evil: 3\r\n\r\n"',
 '"user":"Z\u00fcrich","model":"b"']
--- response_headers eval
["X-User: a??X-Evil: 1??;\nX-Evil: ", "X-User: ", "X-User: "]
--- response_body_like eval
['"The"', '^user a\?X-Evil: 2, model b\?\?X-Evil: 3\?{4}, evil \.',
 "^user Z\xc3\xbcrich, model b, evil "]
