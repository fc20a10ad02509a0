# mistral_quota: budgets of a window.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();
env_to_nginx('TZ=UTC');

our $Http = <<'EOC';
mistral_model null { path null:len=12; context 256; }
mistral_model long { path null:; context 4096; }
mistral_quota_zone $arg_key zone=hour:1m quota=100 window=1h;
mistral_quota_zone $arg_key zone=day:1m quota=100 window=1d align=calendar;
mistral_quota_zone $arg_key zone=days:1m quota=100 window=30d;
mistral_quota_zone $arg_key zone=month:1m quota=100 window=month;
mistral_limit_zone $arg_key zone=rate:1m rate=1t/h burst=60;
map $arg_tier $quota { gold 1k; free 20; none ""; bad x; }
mistral_quota_zone $arg_key zone=tier:1m quota=$quota window=1d;
log_format limit '$status $mistral_limit_status $mistral_limit_remaining;';
access_log logs/access.log limit;
EOC

our $Config = sub {
    my ($line, $model) = @_;
    $model //= 'null';
    return "location /v1/ { mistral_pass $model; $line }\n";
};

our $Ask = sub {
    my ($n, $more, $args) = @_;
    $args //= 'key=k';
    return "POST /v1/completions?$args\n"
           . '{"prompt":"' . 'x' x $n . '",' . $more . '}';
};

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http) if !defined $block->http_config;
    $block->set_value('config', $Config->('mistral_quota zone=hour;'))
        if !defined $block->config;
});

ready_on();
run_tests();

__DATA__

=== TEST 1: what is left of it, and what is refused
--- request eval
[$::Ask->(10, '"max_tokens":80'), $::Ask->(60, '"max_tokens":5'), $::Ask->(10, '"max_tokens":4'), $::Ask->(60, '"max_tokens":5', 'key=l')]
--- error_code eval
[200, 200, 429, 200]
--- raw_response_headers_like eval
['x-ratelimit-limit-tokens: 100\r\nx-ratelimit-remaining-tokens: 78\r\nx-ratelimit-reset-tokens: (?:59m\d+s|1h0m0s)\r\n', 'remaining-tokens: 13\r\n',
 'x-ratelimit-remaining-tokens: 13\r\nx-ratelimit-reset-tokens: (?:59m\d+s|1h0m0s)\r\nRetry-After: 3(?:600|5[5-9]\d)\r\n', 'remaining-tokens: 35\r\n']
--- response_body_like eval
['choices', 'choices', '"message":"The request needs 14 tokens, your quota of 100 has 13 left: it begins anew in (?:59m\d+s|1h0m0s).","type":"rate_limit_error","param":null,"code":"insufficient_quota"', 'choices']
--- access_log eval
[qr/^(200 PASSED 78;|200 PASSED 13;|429 REJECTED 13;|200 PASSED 35;)\n\z/m]



=== TEST 2: more than all of it
--- request eval
$::Ask->(60, '"max_tokens":41')
--- error_code: 429
--- response_headers
!Retry-After
--- response_body_like: "The request needs 101 tokens, the limit is 100: .*"code":"request_too_large_for_limit"



=== TEST 3: windows of the calendar and of 30 days
--- config
location /day/ { mistral_pass null; mistral_quota zone=day; }
location /days/ { mistral_pass null; mistral_quota zone=days; }
location /month/ { mistral_pass null; mistral_quota zone=month; }
--- request eval
[map { "POST /$_/completions?key=k\n" . '{"prompt":"abc","max_tokens":7}' } qw/ day days month /]
--- response_headers eval
[("x-ratelimit-remaining-tokens: 90") x 3]
--- raw_response_headers_like eval
['reset-tokens: (?:2[0-4]h|1?\d+h\d+m|\d+m|\d+s)', 'reset-tokens: 7(?:19h59m|20h0m)\d+s', 'reset-tokens: (?:[1-7]?\d?\dh|\d+m|\d+s)']



=== TEST 4: a limit and a quota: the tighter one is told
--- config eval
$::Config->('mistral_limit zone=rate; mistral_quota zone=hour;')
--- request eval
[$::Ask->(10, '"max_tokens":10'), $::Ask->(10, '"max_tokens":31'), "POST /v1/completions?key=k\n" . '{"prompt":"a","max_tokens":1}']
--- error_code eval
[200, 429, 200]
--- response_headers eval
["x-ratelimit-limit-tokens: 60\nx-ratelimit-remaining-tokens: 40", "x-ratelimit-limit-tokens: 60", "x-ratelimit-remaining-tokens: 38"]
--- response_body_like eval
['', 'rate_limit_exceeded', '']



=== TEST 5: a quota that refuses leaves the limit as it was
--- config eval
$::Config->('mistral_limit zone=rate; mistral_quota zone=tier;')
--- request eval
[$::Ask->(5, '"max_tokens":10', 'key=k&tier=free'), $::Ask->(5, '"max_tokens":10', 'key=k&tier=free'), $::Ask->(5, '"max_tokens":10', 'key=k')]
--- error_code eval
[200, 429, 200]
--- response_headers eval
["x-ratelimit-limit-tokens: 20\nx-ratelimit-remaining-tokens: 5", "x-ratelimit-limit-tokens: 20\nx-ratelimit-remaining-tokens: 5",
 "x-ratelimit-limit-tokens: 60\nx-ratelimit-remaining-tokens: 30"]



=== TEST 6: a quota of a variable
--- config eval
$::Config->('mistral_quota zone=tier;')
--- request eval
[map { $::Ask->(5, '"max_tokens":5', "key=$_&tier=$_") } qw/ gold free none bad /]
--- error_code eval
[200, 200, 200, 500]
--- response_headers eval
["x-ratelimit-limit-tokens: 1000\nx-ratelimit-remaining-tokens: 990", "x-ratelimit-limit-tokens: 20\nx-ratelimit-remaining-tokens: 10",
 "!x-ratelimit-limit-tokens", "!x-ratelimit-limit-tokens"]



=== TEST 7: it ends where the quota does
--- config eval
$::Config->('mistral_quota zone=hour reserve=prompt overrun=stop;', 'long')
--- request eval
[$::Ask->(10, '"max_tokens":200'), $::Ask->(1, '"max_tokens":1'), $::Ask->(10, '"max_tokens":20', 'key=l')]
--- error_code eval
[200, 429, 200]
--- response_headers eval
["x-ratelimit-remaining-tokens: 0", "x-ratelimit-remaining-tokens: 0", "x-ratelimit-remaining-tokens: 70"]
--- response_body_like eval
['"finish_reason":"length".*"completion_tokens":90,', 'insufficient_quota', '"completion_tokens":20,']



=== TEST 8: or goes on, and counts
--- config eval
$::Config->('mistral_quota zone=hour reserve=5;', 'long')
--- request eval
[$::Ask->(10, '"max_tokens":200'), $::Ask->(1, '"max_tokens":1')]
--- error_code eval
[200, 429]
--- response_body_like eval
['"completion_tokens":200,', 'has 0 left']



=== TEST 9: one of the answers only
--- config eval
$::Config->('mistral_quota zone=hour count=completion;')
--- request eval
[$::Ask->(200, '"max_tokens":20')]
--- response_headers
x-ratelimit-remaining-tokens: 88



=== TEST 10: in the metrics, and a dry run
--- config eval
$::Config->('mistral_quota zone=hour; mistral_limit_dry_run on;') . 'location = /metrics { mistral_status prometheus; }'
--- request eval
[$::Ask->(60, '"max_tokens":41'), $::Ask->(60, '"max_tokens":30'), 'GET /metrics']
--- response_body_like eval
['', '', "zone=\"hour\",status=\"passed\"} 1\nmistral_limit_total\\{zone=\"hour\",status=\"rejected\"} 0\nmistral_limit_total\\{zone=\"hour\",status=\"rejected_dry_run\"} 1\n"]
--- access_log eval
[qr/^(200 REJECTED_DRY_RUN 100;|200 PASSED 28;)\n\z|GET/m]
