# mistral_limit: what a request takes, gets back and is told.  A token in an
# hour is no rate that a test could notice: what is left is exact.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:len=12; context 256; }
mistral_model long { path null:; context 4096; max_batch 4; }
mistral_model slow { path null:rate=200,len=12; context 256; }
mistral_limit_zone $arg_key zone=all:1m rate=1t/h burst=100;
mistral_limit_zone $arg_other zone=other:1m rate=1t/h burst=60;
map $arg_tier $rate { gold 1000t/h; free 10t/h; none ""; bad 10; zero 0t/h; }
map $arg_tier $burst { gold 2k; free ""; }
log_format limit '$status $mistral_limit_status $mistral_limit_remaining;';
access_log logs/access.log limit;
EOC

# a location with this line

our $Config = sub {
    my ($line, $model) = @_;
    $model //= 'null';
    return "location /v1/ { mistral_pass $model; $line }\n";
};

# {"prompt": a text of n tokens, ...}

our $Ask = sub {
    my ($n, $more, $args) = @_;
    $args //= 'key=k';
    return "POST /v1/completions?$args\n"
           . '{"prompt":"' . 'x' x $n . '",' . $more . '}';
};

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http) if !defined $block->http_config;
    $block->set_value('config', $Config->('mistral_limit zone=all;'))
        if !defined $block->config;
});

ready_on();
run_tests();

__DATA__

=== TEST 1: prompt and reserve are taken, what was not needed comes back
--- request eval
[$::Ask->(10, '"max_tokens":80'), $::Ask->(10, '"max_tokens":5'), $::Ask->(10, '"max_tokens":5', 'key=l')]
--- response_headers eval
["x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 78\n!Retry-After",
 "x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 63",
 "x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 85"]
--- response_body_like eval
['"prompt_tokens":10,"completion_tokens":12,', '"prompt_tokens":10,"completion_tokens":5,', 'completion_tokens":5,']
--- access_log eval
[qr/^(200 PASSED 78;|200 PASSED 63;|200 PASSED 85;)\n\z/m]



=== TEST 2: a stream is told what its debit left (or its end, if that was faster), and its refund is there for who comes next
--- config eval
$::Config->('mistral_limit zone=all;', 'slow')
--- request eval
[$::Ask->(10, '"max_tokens":80,"stream":true'), $::Ask->(10, '"max_tokens":68,"stream":true'), $::Ask->(1, '"max_tokens":1')]
--- response_headers_like eval
["x-ratelimit-remaining-tokens: (10|78)", "x-ratelimit-remaining-tokens: (0|56)", "x-ratelimit-remaining-tokens: 54"]
--- response_body_like eval
['DONE', 'DONE', 'T']



=== TEST 3: more than ever fits
--- request eval
[$::Ask->(60, '"max_tokens":41'), $::Ask->(60, '"max_tokens":40')]
--- error_code eval
[429, 200]
--- response_headers eval
["!Retry-After\nx-ratelimit-remaining-tokens: 100", "x-ratelimit-remaining-tokens: 28"]
--- response_body_like eval
['"message":"The request needs 101 tokens, the limit is 100: [^"]*","type":"rate_limit_error","param":null,"code":"request_too_large_for_limit"', 'choices']



=== TEST 4: not now: when it will be
--- request eval
[$::Ask->(60, '"max_tokens":20'), $::Ask->(60, '"max_tokens":1')]
--- error_code eval
[200, 429]
--- raw_response_headers_like eval
['remaining-tokens: 28\r\n', 'x-ratelimit-limit-tokens: 100\r\nx-ratelimit-remaining-tokens: 28\r\nx-ratelimit-reset-tokens: (?:71h59m\d+s|72h0m0s)\r\nRetry-After: 118[78]\d\d\r\n']
--- response_body_like eval
['choices', '"message":"The request needs 61 tokens, your limit of 100 has 28 left: please try again in (?:32h\d+m\d+s|33h0m0s).","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"']
--- access_log eval
[qr/^(200 PASSED 28;|429 REJECTED 28;)\n\z/m]



=== TEST 5: what comes soon
--- http_config eval
$::Http . 'mistral_limit_zone $arg_key zone=fast:1m rate=6kt/m burst=100;'
--- config eval
$::Config->('mistral_limit zone=fast count=prompt;')
--- request eval
[$::Ask->(90, '"max_tokens":1'), $::Ask->(100, '"max_tokens":1')]
--- error_code_like eval
['200', '429|200']
--- raw_response_headers_like eval
['reset-tokens: \d+ms\r\n', '(?:Retry-After: 1\r\n|200)']



=== TEST 6: each limit is asked, and a refused request takes nothing of any
--- config eval
$::Config->('mistral_limit zone=all; mistral_limit zone=other;')
--- request eval
[$::Ask->(20, '"max_tokens":15', 'key=a&other=b'), $::Ask->(20, '"max_tokens":15', 'key=a&other=b'),
 $::Ask->(1, '"max_tokens":1', 'key=a'), $::Ask->(1, '"max_tokens":1', 'other=b')]
--- error_code eval
[200, 429, 200, 200]
--- response_headers eval
["x-ratelimit-limit-tokens: 60\nx-ratelimit-remaining-tokens: 28",
 "x-ratelimit-limit-tokens: 60\nx-ratelimit-remaining-tokens: 28",
 "x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 66",
 "x-ratelimit-limit-tokens: 60\nx-ratelimit-remaining-tokens: 26"]



=== TEST 7: count=prompt, count=completion, count=uncached
--- config
location /prompt/ { mistral_pass null; mistral_limit zone=all count=prompt; }
location /completion/ { mistral_pass null; mistral_limit zone=all count=completion; }
location /uncached/ { mistral_pass null; mistral_limit zone=all count=uncached; }
--- request eval
["POST /prompt/completions?key=p\n" . '{"prompt":"' . 'x' x 50 . '","max_tokens":200}',
 "POST /completion/completions?key=c\n" . '{"prompt":"' . 'x' x 150 . '","max_tokens":100}',
 "POST /completion/completions?key=c\n" . '{"prompt":"x","max_tokens":100}',
 (map { "POST /uncached/completions?key=u\n" . '{"prompt":"' . 'y' x 40 . '","max_tokens":4}' } 1, 2)]
--- error_code eval
[200, 200, 429, 200, 200]
--- response_headers eval
["x-ratelimit-remaining-tokens: 50", "x-ratelimit-remaining-tokens: 88", "x-ratelimit-remaining-tokens: 88",
 "x-ratelimit-remaining-tokens: 56", "x-ratelimit-remaining-tokens: 44"]
--- response_body_like eval
['', '', 'needs 100 tokens', '"cached_tokens":0', '"cached_tokens":32']



=== TEST 8: answers count one by one, prompts once, copies not
--- config eval
$::Config->('mistral_limit zone=all;', 'long')
--- request eval
[$::Ask->(10, '"max_tokens":20,"n":4,"temperature":1', 'key=a'), $::Ask->(10, '"max_tokens":20,"n":4,"temperature":0', 'key=b'),
 "POST /v1/completions?key=c\n" . '{"prompt":["xxxxx","yyyyyyyyy"],"max_tokens":20,"n":2,"temperature":0}',
 "POST /v1/completions?key=d\n" . '{"prompt":["xxxxx","yyyyyyyyy"],"max_tokens":20,"n":2,"temperature":1}',
 $::Ask->(10, '"max_tokens":23,"n":4,"temperature":1', 'key=e')]
--- error_code eval
[200, 200, 200, 200, 429]
--- response_headers eval
["x-ratelimit-remaining-tokens: 10", "x-ratelimit-remaining-tokens: 70",
 "x-ratelimit-remaining-tokens: 46", "x-ratelimit-remaining-tokens: 6", "x-ratelimit-remaining-tokens: 100"]
--- response_body_like eval
['"prompt_tokens":10,"completion_tokens":80,', '"prompt_tokens":10,"completion_tokens":20,',
 '"prompt_tokens":14,"completion_tokens":40,', '"prompt_tokens":14,"completion_tokens":80,', 'needs 102 tokens']



=== TEST 9: a smaller reserve admits more; what comes beyond it is a debt
--- config eval
$::Config->('mistral_limit zone=all reserve=10;', 'long')
--- request eval
[$::Ask->(10, '"max_tokens":150'), $::Ask->(1, '"max_tokens":1'), $::Ask->(10, '"max_tokens":5', 'key=l')]
--- error_code eval
[200, 429, 200]
--- response_headers eval
["x-ratelimit-remaining-tokens: 0", "x-ratelimit-remaining-tokens: 0", "x-ratelimit-remaining-tokens: 85"]
--- raw_response_headers_like eval
['x-ratelimit-reset-tokens: (?:159h|160h)', 'Retry-After: 2[23]\d\d\d\d\r\n', '']
--- response_body_like eval
['"completion_tokens":150,"total_tokens":160.*|"finish_reason":"length"', 'has 0 left', '']



=== TEST 10: overrun=stop: it ends where the bucket does
--- config eval
$::Config->('mistral_limit zone=all reserve=prompt overrun=stop;', 'long')
--- request eval
[$::Ask->(10, '"max_tokens":150'), $::Ask->(1, '"max_tokens":1'), $::Ask->(10, '"max_tokens":150,"stream":true,"stream_options":{"include_usage":true}', 'key=s'),
 $::Ask->(10, '"max_tokens":150,"n":2,"temperature":1', 'key=n'), $::Ask->(10, '"max_tokens":7', 'key=m')]
--- error_code eval
[200, 429, 200, 200, 200]
--- response_headers eval
["x-ratelimit-remaining-tokens: 0", "x-ratelimit-remaining-tokens: 0", "x-ratelimit-limit-tokens: 100",
 "x-ratelimit-remaining-tokens: 0", "x-ratelimit-remaining-tokens: 83"]
--- response_body_like eval
['"text":"(?:The quick brown fox jumps over the lazy dog. ){2}","logprobs":null,"finish_reason":"length".*"completion_tokens":90,',
 'rate_limit_exceeded', '"finish_reason":"length".*"prompt_tokens":10,"completion_tokens":90,.*\[DONE\]', '"completion_tokens":90,', '"completion_tokens":7,']



=== TEST 11: a stop string: what was sampled beyond it is nobody's
--- config eval
$::Config->('mistral_limit zone=all;', 'long')
--- request eval
[$::Ask->(10, '"max_tokens":80,"stop":"brown"'), $::Ask->(10, '"max_tokens":10,"stop":"brown"')]
--- response_headers eval
["x-ratelimit-remaining-tokens: 75", "x-ratelimit-remaining-tokens: 55"]
--- response_body_like eval
['"text":"The quick ".*"finish_reason":"stop".*"completion_tokens":15,', '"completion_tokens":10,']



=== TEST 12: nobody pays for what the engine refuses
--- config
location /v1/ { mistral_pass long; mistral_limit zone=all; mistral_queue 0; }
--- request eval
[$::Ask->(10, '"max_tokens":10,"n":5,"temperature":1'), $::Ask->(10, '"max_tokens":10')]
--- error_code eval
[400, 200]
--- response_headers eval
["x-ratelimit-remaining-tokens: 100", "x-ratelimit-remaining-tokens: 80"]
--- access_log eval
[qr/^(400 PASSED 100;|200 PASSED 80;)\n\z/m]



=== TEST 13: what is refused before is not counted at all
--- request eval
["POST /v1/completions?key=k\n{", $::Ask->(300, '"max_tokens":1'), "GET /v1/models?key=k", "POST /v1/tokenize?key=k\n" . '{"prompt":"abc"}',
 $::Ask->(1, '"max_tokens":1')]
--- error_code eval
[400, 400, 200, 200, 200]
--- response_headers eval
[("!x-ratelimit-remaining-tokens") x 4, "x-ratelimit-remaining-tokens: 98"]
--- access_log eval
[qr/^(400 - -;|200 - -;|200 PASSED 98;)\n\z/m]



=== TEST 14: a dry run counts and lets pass
--- config eval
$::Config->('mistral_limit zone=all; mistral_limit_dry_run on;')
--- request eval
[$::Ask->(60, '"max_tokens":20'), $::Ask->(60, '"max_tokens":20'), $::Ask->(160, '"max_tokens":20'), $::Ask->(8, '"max_tokens":20')]
--- error_code eval
[200, 200, 200, 200]
--- response_headers eval
[("!x-ratelimit-remaining-tokens") x 4]
--- access_log eval
[qr/^(200 PASSED 28;|200 REJECTED_DRY_RUN 28;|200 PASSED 8;)\n\z/m]



=== TEST 15: in a dry run nothing is stopped
--- config eval
$::Config->('mistral_limit zone=all reserve=prompt overrun=stop; mistral_limit_dry_run on;', 'long')
--- request eval
$::Ask->(10, '"max_tokens":150')
--- response_body_like: "completion_tokens":150,



=== TEST 16: another status
--- config eval
$::Config->('mistral_limit zone=all; mistral_limit_status 503;')
--- request eval
[$::Ask->(60, '"max_tokens":41'), $::Ask->(60, '"max_tokens":30'), $::Ask->(60, '"max_tokens":30')]
--- error_code eval
[503, 200, 503]
--- raw_response_headers_unlike eval
['Retry-After', 'Retry-After', 'Retry-After.*Retry-After|X-Mistral-Shed']
--- raw_response_headers_like eval
['', '', 'Retry-After: \d{6}\r\n']
--- response_body_like eval
['"code":"request_too_large_for_limit"', '', '"code":"rate_limit_exceeded"']



=== TEST 17: without a key there is no limit; a long one is one
--- request eval
[$::Ask->(60, '"max_tokens":60', 'a=b'), $::Ask->(40, '"max_tokens":10', 'key=' . 'x' x 300), $::Ask->(40, '"max_tokens":10', 'key=' . 'x' x 301)]
--- response_headers eval
["!x-ratelimit-remaining-tokens", "x-ratelimit-remaining-tokens: 50", "x-ratelimit-remaining-tokens: 50"]
--- access_log eval
[qr/^(200 - -;|200 PASSED 50;)\n\z/m]



=== TEST 18: rate and burst of variables
--- http_config eval
$::Http . 'mistral_limit_zone $arg_key zone=tier:1m rate=$rate burst=$burst;'
--- config eval
$::Config->('mistral_limit zone=tier;')
--- request eval
[map { $::Ask->(5, '"max_tokens":5', "key=$_&tier=$_") } qw/ gold free none bad zero /]
--- error_code eval
[200, 200, 200, 500, 429]
--- response_headers eval
["x-ratelimit-limit-tokens: 2000\nx-ratelimit-remaining-tokens: 1990", "x-ratelimit-limit-tokens: 10\nx-ratelimit-remaining-tokens: 0",
 "!x-ratelimit-limit-tokens", "!x-ratelimit-limit-tokens", "x-ratelimit-limit-tokens: 0\n!Retry-After"]
--- response_body_like eval
['', '', '', '"code":"internal_error"', '"code":"request_too_large_for_limit"']



=== TEST 19: all of a level or those of the level above
--- http_config eval
$::Http . 'mistral_limit zone=all;'
--- config
location /a/ { mistral_pass null; }
location /b/ { mistral_pass null; mistral_limit zone=other count=prompt; }
--- request eval
["POST /a/completions?key=k&other=o\n" . '{"prompt":"aaa","max_tokens":2}',
 "POST /b/completions?key=k&other=o\n" . '{"prompt":"aaa","max_tokens":2}']
--- response_headers eval
["x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 95", "x-ratelimit-limit-tokens: 60\nx-ratelimit-remaining-tokens: 57"]



=== TEST 20: an error_page takes the refusal over
--- config
location /v1/ { mistral_pass null; mistral_limit zone=all; error_page 429 = @later; }
location @later { return 202 "later $mistral_limit_status $mistral_limit_remaining\n"; }
--- request eval
[$::Ask->(60, '"max_tokens":41'), $::Ask->(60, '"max_tokens":30')]
--- error_code eval
[202, 200]
--- response_body_like eval
["\\Alater REJECTED 100\n\\z", 'choices']
--- response_headers eval
["!x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens: 28"]



=== TEST 21: in the metrics
--- config eval
$::Config->('mistral_limit zone=all;') . 'location = /metrics { mistral_status prometheus; }'
--- request eval
[$::Ask->(60, '"max_tokens":41'), $::Ask->(60, '"max_tokens":30'), $::Ask->(1, '"max_tokens":1'), 'GET /metrics']
--- error_code eval
[429, 200, 200, 200]
--- response_body_like eval
['', '', '', "# TYPE mistral_limit_total counter\nmistral_limit_total\\{zone=\"all\",status=\"passed\"} 2\nmistral_limit_total\\{zone=\"all\",status=\"rejected\"} 1\nmistral_limit_total\\{zone=\"all\",status=\"rejected_dry_run\"} 0\nmistral_limit_total\\{zone=\"other\",status=\"passed\"} 0\n"]



=== TEST 22: a key of all that a request tells
--- http_config eval
$::Http . 'mistral_limit_zone $mistral_model$mistral_user zone=body:1m rate=1t/h burst=50;'
--- config eval
$::Config->('mistral_limit zone=body;')
--- request eval
[$::Ask->(5, '"max_tokens":5,"user":"eve"'), $::Ask->(5, '"max_tokens":5,"user":"eve"'), $::Ask->(5, '"max_tokens":5,"user":"bob"')]
--- response_headers eval
["x-ratelimit-remaining-tokens: 40", "x-ratelimit-remaining-tokens: 30", "x-ratelimit-remaining-tokens: 40"]



=== TEST 23: the log tells the numbers
--- request eval
$::Ask->(60, '"max_tokens":41')
--- error_code: 429
--- error_log
refused: it needs 101 tokens, mistral_limit "all" has 100 of 100 left



=== TEST 24: of a dry run, too
--- config eval
$::Config->('mistral_limit zone=all; mistral_limit_dry_run on;')
--- request eval
$::Ask->(60, '"max_tokens":41')
--- error_log
refused, dry run: it needs 101 tokens, mistral_limit "all" has 100 of 100 left



=== TEST 25: and of a rate that is none
--- http_config eval
$::Http . 'mistral_limit_zone $arg_key zone=tier:1m rate=$rate;'
--- config eval
$::Config->('mistral_limit zone=tier;')
--- request eval
$::Ask->(5, '"max_tokens":5', "key=k&tier=bad")
--- error_code: 500
--- error_log
"rate" of mistral_limit_zone "tier" evaluates to "10", which is none



=== TEST 26: a stream that comes token by token ends there, too
--- http_config eval
$::Http . 'mistral_model steady { path null:rate=400; context 4096; }'
--- config eval
$::Config->('mistral_limit zone=all reserve=20 overrun=stop;', 'steady')
--- request eval
[$::Ask->(10, '"max_tokens":150,"stream":true,"stream_options":{"include_usage":true}'), $::Ask->(1, '"max_tokens":1')]
--- error_code eval
[200, 429]
--- response_headers_like eval
["x-ratelimit-remaining-tokens: \\d+", "x-ratelimit-remaining-tokens: 0"]
--- response_body_like eval
['"finish_reason":"length".*"prompt_tokens":10,"completion_tokens":90,.*\[DONE\]', '"code":"rate_limit_exceeded"']
