# Devices that are hot: what is refused, what not, what is told.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model hot { path null:celsius=86; thermal_limit 85; }
mistral_model warm { path null:celsius=85; thermal_limit 85; }
mistral_model free { path null:celsius=200; }
mistral_model dark {
    path           null:;
    thermal_limit  1;
}
EOC

our $Config = <<'EOC';
location /v1/ { mistral_pass $arg_m; }
location /hot/ { mistral_pass hot; }
location /tired/ { mistral_pass hot; mistral_shed_status 429; }
location /relieved/ { mistral_pass hot; mistral_fallback warm; }
location /picky/ { mistral_pass hot; mistral_fallback warm on=queue_full; }
location = /status { mistral_status json; }
location = /metrics { mistral_status prometheus; }
location = /healthz { mistral_health ready; }
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http);
    $block->set_value('config', $Config);
});

our $Ask = '{"prompt":"hi","max_tokens":3}';

ready_on();
run_tests();

__DATA__

=== TEST 1: above the limit
--- request eval
"POST /hot/completions\n$::Ask"
--- error_code: 503
--- response_body_like: \A\{"error":\{"message":"The model's device is too hot, try again soon\.","type":"server_error","param":null,"code":"thermal"}}\n\z
--- response_headers_like
Retry-After: [1-9]\d*
X-Mistral-Shed-Reason: thermal
--- error_log
refused: engine of model "hot" is above its thermal_limit



=== TEST 2: at the limit, without one, and where nobody knows
--- request eval
["POST /v1/completions?m=warm\n$::Ask", "POST /v1/completions?m=free\n$::Ask",
 "POST /v1/completions?m=dark\n$::Ask"]
--- error_code eval
[200, 200, 200]
--- response_body_like eval
["The", "The", "The"]



=== TEST 3: another status, another model, or neither
--- request eval
["POST /tired/completions\n$::Ask", "POST /relieved/completions\n$::Ask",
 "POST /picky/completions\n$::Ask"]
--- error_code eval
[429, 200, 503]
--- response_headers eval
["X-Mistral-Shed-Reason: thermal", "X-Mistral-Model: warm",
 "X-Mistral-Shed-Reason: thermal"]



=== TEST 4: text to tokens needs no device; health is the engine's
--- request eval
["POST /hot/tokenize\n{\"prompt\":\"hi\"}", "GET /healthz"]
--- error_code eval
[200, 200]



=== TEST 5: what is known is told
--- request eval
["POST /hot/completions\n$::Ask", "GET /metrics", "GET /status"]
--- error_code eval
[503, 200, 200]
--- response_body_like eval
["thermal",
 'shed_total\{model="hot",reason="thermal"\} [1-9](?s:.*)
mistral_device_temperature_celsius\{model="hot"\} 86
mistral_device_temperature_celsius\{model="warm"\} 85
mistral_device_temperature_celsius\{model="free"\} 200
# HELP mistral_device_power_watts ',
 '"model":"hot".*"device_celsius":86,"device_milliwatts":0,.*"model":"dark".*"device_celsius":0,']
