# mistral_canary: who meets another model, and when nobody does.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Ask = "POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}';
our $Real = $ENV{TEST_NGINX_SMOLLM2}
    = MistralTest::build() . "/models/SmolLM2-135M-Instruct.Q4_1.gguf";

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', ($block->http_config // '') . <<'EOC');
mistral_model stable { path null:; context 4096; alias chat; }
mistral_model canary { path null:rate=200; context 64; engine_timeout 2s; }
mistral_model other { path null:; context 4096; }
log_format who '$status $mistral_model $mistral_effective_model;';
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: 0% is nobody, 100% is all
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 0%; }
location /all/ { mistral_pass stable; mistral_canary canary 100%; }
--- request eval
[($main::Ask) x 3, ($main::Ask =~ s/v1/all/r) x 3]
--- response_headers eval
[("X-Mistral-Model: stable") x 3, ("X-Mistral-Model: canary") x 3]
--- response_body_like eval
[('"model":"stable","choices":\[\{"index":0,"text":"T"') x 6]



=== TEST 2: two canaries, the first that is met answers
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 0%; mistral_canary other 100%; }
location /a/ { mistral_pass stable; mistral_canary canary 100%; mistral_canary other 0%; }
location /b/ { mistral_pass stable; mistral_canary canary 100%; mistral_canary other 100%; }
location /c/ { mistral_pass stable; mistral_canary canary 0%; mistral_canary other 0%; }
--- request eval
[map { $main::Ask =~ s/v1/$_/r } qw/ v1 a b c /]
--- response_headers eval
["X-Mistral-Model: other", "X-Mistral-Model: canary", "X-Mistral-Model: canary", "X-Mistral-Model: stable"]
--- response_body_like eval
["T", "T", "T", "T"]



=== TEST 3: a key's point is 72.4068%: the same on all hosts, exact to the last digit
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 72.4068% key=$arg_k; }
location /a/ { mistral_pass stable; mistral_canary canary 72.4069% key=$arg_k; }
location /b/ { mistral_pass stable; mistral_canary canary 73% key=al$arg_k; }
--- request eval
[map { $main::Ask =~ s/v1(\S*)/$_/r } "v1/completions?k=alice", "a/completions?k=alice", "b/completions?k=ice", "v1/completions?k=alice"]
--- response_headers eval
["X-Mistral-Model: stable", "X-Mistral-Model: canary", "X-Mistral-Model: canary", "X-Mistral-Model: stable"]
--- response_body_like eval
["T", "T", "T", "T"]



=== TEST 4: a key of the body
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 72.5% key=$mistral_user; }
location /a/ { mistral_pass stable; mistral_canary canary 72.4% key=$mistral_user; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":1,"user":"alice"}',
 "POST /a/completions\n" . '{"prompt":"a","max_tokens":1,"user":"alice"}']
--- response_headers eval
["X-Mistral-Model: canary", "X-Mistral-Model: stable"]
--- response_body_like eval
["T", "T"]



=== TEST 5: a header decides
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 0% header=X-Canary; }
location /all/ { mistral_pass stable; mistral_canary canary 100% header=x_canary; }
--- request eval
[($main::Ask) x 4, ($main::Ask =~ s/v1/all/r) x 4]
--- more_headers eval
[map { ("X-Canary: always", "x-canary: ALWAYS", "X-Canary: never", "X-Canary: alwaysx") } 1 .. 2]
--- response_headers eval
["X-Mistral-Model: canary", "X-Mistral-Model: canary", "X-Mistral-Model: stable", "X-Mistral-Model: stable",
 "X-Mistral-Model: canary", "X-Mistral-Model: canary", "X-Mistral-Model: stable", "X-Mistral-Model: canary"]
--- response_body_like eval
[("T") x 8]



=== TEST 6: the percentage of a variable
--- http_config
map $http_x_team $part { default 0%; red 100%; green 0.0001%; blue 1%%; }
--- config
location /v1/ { mistral_pass stable; mistral_canary canary $part; }
--- request eval
[($main::Ask) x 4]
--- more_headers eval
["X-Team: red", "X-Team: green", "X-Team: blue", ""]
--- response_headers eval
["X-Mistral-Model: canary", "X-Mistral-Model: stable", "X-Mistral-Model: stable", "X-Mistral-Model: stable"]
--- response_body_like eval
[("T") x 4]



=== TEST 7: and one that is none
--- config
location /v1/ { mistral_pass stable; mistral_canary canary $arg_part; }
--- request eval
$main::Ask =~ s/completions/completions?part=1%%/r
--- response_headers
X-Mistral-Model: stable
--- response_body_like: T
--- error_log
the percentage of canary "canary" evaluates to "1%%", 0% is taken



=== TEST 8: the client sees its own name, log and metrics who answered
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 100%; access_log logs/access.log who; }
location = /metrics { mistral_status prometheus; access_log logs/access.log combined; }
--- request eval
["POST /v1/completions\n" . '{"model":"chat","prompt":"a","max_tokens":1}',
 "POST /v1/completions\n" . '{"model":"canary","prompt":"a","max_tokens":1}',
 "GET /metrics"]
--- error_code eval
[200, 404, 200]
--- response_body_like eval
['"model":"chat"', 'model_not_found', 'mistral_requests_total\{model="stable",code="404"\} 1\n.*mistral_requests_total\{model="canary",code="200"\} 1\n']
--- access_log eval
qr/200 chat canary;|404 canary -;|GET .metrics/



=== TEST 9: the prompt is the canary's: its context counts
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 0% header=X-Canary; }
--- request eval
[("POST /v1/completions\n" . '{"prompt":"' . 'x' x 100 . '","max_tokens":1}') x 2,
 ("POST /v1/completions\n" . '{"prompt":"' . 'x' x 60 . '"}')]
--- more_headers eval
["X-Canary: always", "", "X-Canary: always"]
--- error_code eval
[400, 200, 200]
--- response_body_like eval
["maximum context length is 64 tokens, but the prompt has 100", "T", '"text":"The ".*"completion_tokens":4,']



=== TEST 10: and its vocabulary
--- skip_eval: 12: !-e $main::Real
--- http_config
mistral_model smollm2 { path $TEST_NGINX_SMOLLM2; context 512; }
--- config
location /v1/ { mistral_pass stable; mistral_canary smollm2 0% header=X-Canary; }
--- request eval
[("POST /v1/tokenize\n" . '{"prompt":"Hello world"}') x 2,
 ("POST /v1/chat/completions\n" . '{"max_tokens":2,"temperature":0,"messages":[{"role":"user","content":"What is 2+2?"}]}') x 2]
--- more_headers eval
[("X-Canary: always", "X-Canary: never") x 2]
--- response_body_like eval
['"count":2,"max_model_len":512', '"count":11,"max_model_len":4096',
 '"model":"stable".*"prompt_tokens":(?!30)\d\d,"completion_tokens":2', '"content":"Th".*"prompt_tokens":30,']
--- timeout: 60



=== TEST 11: a canary that cannot answer leaves its requests to the stable model
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 100%; }
location = /status { mistral_status json; }
--- init
MistralTest::stop_engine('canary');
--- request eval
[($main::Ask) x 2, "POST /v1/tokenize\n" . '{"prompt":"ab"}']
--- response_headers eval
["X-Mistral-Model: stable", "X-Mistral-Model: stable", ""]
--- response_body_like eval
["T", "T", '"count":2,"max_model_len":64']



=== TEST 12: one whose requests fail is rolled back, and says so once
--- http_config
mistral_model tight { path null:rate=20; context 4096; max_batch 1; }
--- config
mistral_queue 0;
location /v1/ { mistral_pass stable; mistral_canary tight 100% max_errors=10% window=10m header=X-Canary; }
location /hold/ { mistral_pass tight; }
location = /status { mistral_status json; }
location = /metrics { mistral_status prometheus; }
--- init
MistralTest::hold('/hold/completions', '{"prompt":"a","max_tokens":4000,"stream":true}');
--- request eval
[$main::Ask, $main::Ask, "GET /status", "GET /metrics", $main::Ask]
--- more_headers eval
["", "", "", "", "X-Canary: always"]
--- error_code eval
[503, 200, 200, 200, 503]
--- response_headers eval
["X-Mistral-Shed-Reason: queue_full", "X-Mistral-Model: stable", "", "", "X-Mistral-Shed-Reason: queue_full"]
--- response_body_like eval
["queue_full", "T", '"model":"tight".*"canary":\{"rolled_back":true,"requests":1,"errors":1\}',
 'mistral_canary_rolled_back\{model="tight"\} 1\n', "queue_full"]



=== TEST 13: in the log
--- http_config
mistral_model tight { path null:rate=20; context 4096; max_batch 1; }
--- config
mistral_queue 0;
location /v1/ { mistral_pass stable; mistral_canary tight 100% max_errors=10% window=10m; }
location /hold/ { mistral_pass tight; }
location = /status { mistral_status json; }
--- init
MistralTest::hold('/hold/completions', '{"prompt":"a","max_tokens":4000,"stream":true}');
--- request eval
$main::Ask
--- error_code: 503
--- response_body_like: queue_full
--- error_log
canary "tight" is rolled back: 1 of its 1 requests within 600000 ms failed, see "mistral_canary" in



=== TEST 14: refusals of the client's making and answers are no errors
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 100% max_errors=0%; }
location = /status { mistral_status json; }
--- request eval
[$main::Ask, "POST /v1/completions\n" . '{"prompt":"' . 'x' x 100 . '"}',
 "POST /v1/completions\n" . '{"prompt":"a","stop":""}', $main::Ask, "GET /status"]
--- error_code eval
[200, 400, 400, 200, 200]
--- response_body_like eval
["T", "context", "stop", "T", '"canary":\{"rolled_back":false,"requests":2,"errors":0\}']



=== TEST 15: inherited, replaced, off
--- http_config
mistral_canary canary 100%;
--- config
location /v1/ { mistral_pass stable; }
location /a/ { mistral_pass stable; mistral_canary other 100%; }
location /b/ { mistral_pass stable; mistral_canary off; }
location /c/ { mistral_pass canary; }
--- request eval
[map { $main::Ask =~ s/v1/$_/r } qw/ v1 a b c /]
--- response_headers eval
["X-Mistral-Model: canary", "X-Mistral-Model: other", "X-Mistral-Model: stable", "X-Mistral-Model: canary"]
--- response_body_like eval
[("T") x 4]



=== TEST 16: with a variable in mistral_pass
--- config
location /v1/ { mistral_pass $arg_m; mistral_canary canary 100%; }
--- request eval
[map { $main::Ask =~ s/completions/completions?m=$_/r } qw/ stable other canary /]
--- response_headers eval
[("X-Mistral-Model: canary") x 3]
--- response_body_like eval
[("T") x 3]



=== TEST 17: split_clients does it too, sticky while its first line grows
--- http_config
split_clients $arg_k $five { 5% canary; * stable; }
split_clients $arg_k $half { 50% canary; * stable; }
--- config
location /v1/ { mistral_pass $five; }
location /half/ { mistral_pass $half; }
--- request eval
[map { $main::Ask =~ s/v1(\S*)/$_/r } map { ("v1/completions?k=$_", "half/completions?k=$_") } 8, 5, 3]
--- response_headers eval
["X-Mistral-Model: canary", "X-Mistral-Model: canary", map { ("X-Mistral-Model: stable", "X-Mistral-Model: $_") } "canary", "stable"]
--- response_body_like eval
[("T") x 6]



=== TEST 18: an unknown model
--- config
location /v1/ { mistral_pass stable; mistral_canary kanary 1%; }
--- must_die
--- error_log
unknown mistral_model "kanary" in



=== TEST 19: the location's own model
--- config
location /v1/ { mistral_pass stable; mistral_canary chat 1%; }
--- must_die
--- error_log
the canary "chat" is the location's own model in



=== TEST 20: no percentage
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 10; }
--- must_die
--- error_log
invalid percentage "10", it must be from "0%" to "100%" with up to 4 decimals, or a variable



=== TEST 21: nothing but a model
--- config
location /v1/ { mistral_pass stable; mistral_canary canary; }
--- must_die
--- error_log
"mistral_canary" needs a model and a percentage, or "off"



=== TEST 22: a key that is the same for all
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 1% key=user; }
--- must_die
--- error_log
invalid parameter "key=user"



=== TEST 23: a window without errors
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 1% window=1m; }
--- must_die
--- error_log
"window=" and "min=" need "max_errors="



=== TEST 24: more than all may fail
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 1% max_errors=101%; }
--- must_die
--- error_log
invalid parameter "max_errors=101%"



=== TEST 25: off beside a line
--- config
location /v1/ { mistral_pass stable; mistral_canary canary 1%; mistral_canary off; }
--- must_die
--- error_log
"mistral_canary" directive cannot be "off" beside other lines
