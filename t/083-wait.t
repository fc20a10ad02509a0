# mistral_engine_wait: its values, what is held and what is not, how long.
# Many at once, orders, workers that end: t/wait.t.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Ask = "POST /v1/completions\n" . '{"prompt":"abc","max_tokens":3}';

# "m" has no engine once it is stopped, "spare" has

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', ($block->http_config // '') . <<'EOC');
mistral_model m { path null:; engine_timeout 2s; }
mistral_model spare { path null:; }
log_format who '$status $mistral_effective_model $mistral_shed_reason '
               'waited=$mistral_engine_wait_time fallback=$mistral_fallback_reason;';
EOC
    $block->set_value('config', ($block->config // '') . <<'EOC');
location = /status { mistral_status json; access_log off; }
EOC
});

ready_on();
run_tests();

__DATA__

=== TEST 1: not held while the engine is ready
--- config
location /v1/ { mistral_pass m; mistral_engine_wait 10s; access_log logs/access.log who; }
--- request eval
$main::Ask
--- response_body_like: "text":"The"
--- access_log
200 m - waited=- fallback=-;



=== TEST 2: from the start of nginx on, whether the engine is there or not
--- no_ready
--- config
location /v1/ { mistral_pass m; mistral_engine_wait 60s; }
--- request eval
$main::Ask
--- timeout: 70
--- response_body_like: "text":"The"
--- error_code: 200



=== TEST 3: held until the time is over
--- config
location /v1/ { mistral_pass m; mistral_engine_wait 250ms; access_log logs/access.log who; }
--- init
MistralTest::stop_engine('m');
--- request eval
$main::Ask
--- error_code: 503
--- response_headers_like
Retry-After: \d+
X-Mistral-Shed-Reason: engine
--- response_body_like: "code":"engine_unavailable"
--- error_log
of model "m" is down
--- access_log eval
qr/^503 m engine waited=(0\.(2[5-9]|[3-9])\d|[1-9])\d*.* fallback=-;/m



=== TEST 4: off by default, and where a location says so
--- http_config
mistral_engine_wait 1h;
--- config
location /v1/ { mistral_pass m; mistral_engine_wait 0; access_log logs/access.log who; }
--- init
MistralTest::stop_engine('m');
--- request eval
$main::Ask
--- error_code: 503
--- response_body_like: "code":"engine_unavailable"
--- access_log
503 m engine waited=- fallback=-;



=== TEST 5: another model is better than to wait
--- config
location /v1/ { mistral_pass m; mistral_engine_wait 1h; mistral_fallback spare; access_log logs/access.log who; }
--- init
MistralTest::stop_engine('m');
--- request eval
$main::Ask
--- error_code: 200
--- response_headers
X-Mistral-Model: spare
--- access_log
200 spare - waited=- fallback=engine;



=== TEST 6: but not where it has other reasons
--- config
location /v1/ {
    mistral_pass m;
    mistral_engine_wait 250ms;
    mistral_fallback spare on=loading|queue_full;
    access_log logs/access.log who;
}
--- init
MistralTest::stop_engine('m');
--- request eval
$main::Ask
--- error_code: 503
--- response_headers
X-Mistral-Shed-Reason: engine
--- access_log eval
qr/^503 m engine waited=[01]\.\d+ fallback=-;/m



=== TEST 7: a canary that is away is not waited for
--- config
location /v1/ {
    mistral_pass spare;
    mistral_canary m 100%;
    mistral_engine_wait 1h;
    access_log logs/access.log who;
}
--- init
MistralTest::stop_engine('m');
--- request eval
$main::Ask
--- error_code: 200
--- access_log
200 spare - waited=- fallback=-;



=== TEST 8: error_page after the time
--- config
location /v1/ {
    mistral_pass m;
    mistral_engine_wait 250ms;
    error_page 503 = @other;
    access_log logs/access.log who;
}
location @other { mistral_pass spare; access_log logs/access.log who; }
--- init
MistralTest::stop_engine('m');
--- request eval
$main::Ask
--- error_code: 200
--- response_body_like: "text":"The"



=== TEST 9: no time
--- config
location /v1/ { mistral_pass m; mistral_engine_wait soon; }
--- must_die
--- error_log
"mistral_engine_wait" directive invalid value



=== TEST 10: twice
--- config
location /v1/ { mistral_pass m; mistral_engine_wait 1s; mistral_engine_wait 2s; }
--- must_die
--- error_log
"mistral_engine_wait" directive is duplicate



=== TEST 11: two values
--- config
location /v1/ { mistral_pass m; mistral_engine_wait 1s 2s; }
--- must_die
--- error_log
invalid number of arguments in "mistral_engine_wait" directive



=== TEST 12: not inside of a model
--- http_config
mistral_model x { path null:; mistral_engine_wait 1s; }
--- must_die
--- error_log
mistral_engine_wait
