# Turned away under pressure: statuses, Retry-After, reasons; and directives
# that need no second client.  t/pressure.t has the crowds.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:; context 4096; }
mistral_model one { path null:delay=400; max_batch 1; }
mistral_queue 0;
EOC

# the place of "one" is taken while the block's request runs

our $Config = <<'EOC';
location /v1/ { mistral_pass null; }
location /one/ { mistral_pass one; }
location = /status { mistral_status json; }
location = /metrics { mistral_status prometheus; }
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http . ($block->http_config // ''));
    $block->set_value('config', $Config . ($block->config // ''));
});

our $Hold = q{MistralTest::hold('/one/completions',
                                '{"prompt":"hi","max_tokens":1}');};
our $Ask = '{"prompt":"hi","max_tokens":1}';

ready_on();
run_tests();

__DATA__

=== TEST 1: a refusal is complete
--- init eval: $::Hold
--- request eval
"POST /one/completions\n$::Ask"
--- error_code: 503
--- response_body_like: \A\{"error":\{"message":"Too many requests are waiting, try again soon\.","type":"server_error","param":null,"code":"queue_full"}}\n\z
--- response_headers_like
Retry-After: [1-9]\d*
X-Mistral-Shed-Reason: queue_full



=== TEST 2: another status for what is full, and another time
--- config
mistral_shed_status 429;
mistral_retry_after 7;
--- init eval: $::Hold
--- request eval
"POST /one/completions\n$::Ask"
--- error_code: 429
--- response_body_like: "type":"rate_limit_error","param":null,"code":"queue_full"
--- response_headers
Retry-After: 7
X-Mistral-Shed-Reason: queue_full



=== TEST 3: a time is one, in minutes too; a location has its own
--- http_config
mistral_retry_after 7;
--- config
location /two/ {
    mistral_pass one;
    mistral_retry_after 2m;
}
--- init eval: $::Hold
--- request eval
["POST /one/completions\n$::Ask", "POST /two/completions\n$::Ask"]
--- error_code eval
[503, 503]
--- response_headers eval
["Retry-After: 7", "Retry-After: 120"]



=== TEST 4: no time
--- config
mistral_retry_after off;
--- init eval: $::Hold
--- request eval
"POST /one/completions\n$::Ask"
--- error_code: 503
--- response_headers
! Retry-After
X-Mistral-Shed-Reason: queue_full



=== TEST 5: error_page takes the status that is configured
--- config
mistral_shed_status 529;
error_page 529 = @elsewhere;
location @elsewhere { return 200 "elsewhere\n"; }
--- init eval: $::Hold
--- request eval
"POST /one/completions\n$::Ask"
--- response_body
elsewhere



=== TEST 6: an engine that is down is no crowd: 503
--- http_config
mistral_model frozen { path null:; engine_timeout 2s; }
--- config
mistral_shed_status 429;
location /frozen/ { mistral_pass frozen; }
--- init
MistralTest::stop_engine('frozen');
--- request eval
"POST /frozen/completions\n$::Ask"
--- error_code: 503
--- response_headers
X-Mistral-Shed-Reason: engine



=== TEST 7: a deadline that is over is so at once
--- config
location /late/ {
    mistral_pass one;
    mistral_queue 5;
    mistral_deadline ttft=$arg_t;
}
--- init eval: $::Hold
--- request eval
"POST /late/completions?t=1ms\n$::Ask"
--- error_code: 503
--- response_body_like: "type":"server_error","param":null,"code":"deadline"
--- response_headers
X-Mistral-Shed-Reason: deadline



=== TEST 8: no deadline, and what is none
--- config
location /late/ {
    mistral_pass null;
    mistral_deadline ttft=$arg_t;
}
location /off/ {
    mistral_pass null;
    mistral_deadline off;
}
mistral_deadline ttft=10m;
--- request eval
[map { "POST /$_\n$::Ask" } 'late/completions', 'late/completions?t=', 'late/completions?t=0',
 'late/completions?t=5m', 'v1/completions', 'off/completions']
--- error_code eval
[(200) x 6]



=== TEST 9: a client's nonsense is no error of ours
--- config
mistral_deadline ttft=$arg_t;
--- request eval
"POST /v1/completions?t=soon\n$::Ask"
--- error_log
"mistral_deadline" evaluates to "soon", which is no time



=== TEST 10: classes, keys and weights from variables
--- config
mistral_priority $arg_p preempt;
mistral_fair $arg_k weight=$arg_w;
mistral_kv_reserve 50%;
--- request eval
[map { "POST /v1/completions?$_\n$::Ask" } 'p=7&k=a&w=1000', 'p=-8&k=b&w=1', 'p=&k=&w=', '', 'p=-0']
--- error_code eval
[(200) x 5]



=== TEST 11: what is no class is as none, and logged
--- config
mistral_priority $arg_p;
mistral_fair $arg_k weight=$arg_w;
--- request eval
"POST /v1/completions?p=8&w=1001\n$::Ask"
--- error_log
"mistral_priority" evaluates to "8", which is no number from -8 to 7
"weight" evaluates to "1001", which is no number from 1 to 1000
--- no_error_log
[error]



=== TEST 12: nor is a word
--- config
mistral_priority $arg_p;
mistral_fair $arg_k weight=$arg_w;
--- request eval
"POST /v1/completions?p=--1&w=0\n$::Ask"
--- error_log
"mistral_priority" evaluates to "--1", which is no number from -8 to 7
"weight" evaluates to "0", which is no number from 1 to 1000
--- no_error_log
[error]



=== TEST 13: whatever is reserved, one request runs
--- http_config
mistral_model small { path null:; context 64; max_batch 2; }
--- config
location /full/ { mistral_pass small; mistral_kv_reserve full; }
location /part/ { mistral_pass small; mistral_kv_reserve 33%; }
location /prompt/ { mistral_pass small; mistral_kv_reserve prompt; }
--- request eval
[map { ("POST /$_/completions\n" . '{"prompt":"' . 'x' x 60 . '","max_tokens":100}',
        "POST /$_/completions\n" . '{"prompt":"x","max_tokens":100,"stream":true}') } qw/ full part prompt /]
--- response_body_like eval
[('"finish_reason":"length".*"completion_tokens":4,', '"finish_reason":"length".*DONE') x 3]



=== TEST 14: what is shed is counted by its reason
--- http_config
mistral_model counted { path null:delay=400; max_batch 1; }
--- config
location /c/ { mistral_pass counted; }
location /d/ { mistral_pass counted; mistral_queue 3; mistral_deadline ttft=1ms; }
--- init
MistralTest::hold('/c/completions', '{"prompt":"hi","max_tokens":1}');
--- request eval
["POST /c/completions\n$::Ask", "POST /d/completions\n$::Ask", 'GET /metrics']
--- error_code eval
[503, 503, 200]
--- response_body_like eval
['queue_full', 'deadline', 'mistral_shed_total\{model="counted",reason="queue_full"} 1\n(?s:.*)mistral_shed_total\{model="counted",reason="deadline"} 1\n']
