# Tenants: mistral_cache_salt, mistral_max_tokens, mistral_default_max_tokens.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:; context 4096; }
log_format length '$status max=$mistral_max_tokens;';
EOC

our $Config = <<'EOC';
mistral_cache_salt $http_x_tenant;

location /v1/ { mistral_pass null; }
location /open/ { mistral_pass null; mistral_cache_salt off; }
location /user/ { mistral_pass null; mistral_cache_salt $http_x_tenant/$mistral_user; }
location = /metrics { mistral_status prometheus; }
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http) if !defined $block->http_config;
    $block->set_value('config', $Config) if !defined $block->config;
});

# 118 tokens, seven full blocks of 16; a fresh text for each test, since a
# block's engine may be that of the block before

sub ask {
    my ($letter, $more, $path) = @_;

    return 'POST ' . ($path // '/v1') . "/chat/completions\n"
           . '{"messages":[{"role":"user","content":"' . $letter x 100
           . '"}],"max_tokens":1' . (defined $more ? ",$more" : '') . '}';
}

sub cached { return map { qr/"prompt_tokens":118,.*"cached_tokens":$_}/ } @_ }

ready_on();
run_tests();

__DATA__

=== TEST 1: a salt has a cache of its own
--- request eval
[map { ::ask('a') } 1 .. 7]
--- more_headers eval
['X-Tenant: a', 'X-Tenant: a', 'X-Tenant: b', 'X-Tenant: b', 'X-None: 1', 'X-Tenant:', 'X-Tenant: a']
--- response_body_like eval
[::cached(0, 112, 0, 112, 0, 112, 112)]



=== TEST 2: what the engine counts is the same
--- request eval
[::ask('b'), ::ask('b'), ::ask('b'), 'GET /metrics']
--- more_headers eval
['X-Tenant: c', 'X-Tenant: d', 'X-Tenant: c', '']
--- response_body_like eval
[::cached(0, 0, 112), qr/mistral_prompt_tokens_total\{model="null"\} 354\n.*mistral_cached_tokens_total\{model="null"\} 112\n/s]



=== TEST 3: off, and an inherited salt that another replaces
--- request eval
[::ask('c'), ::ask('c', undef, '/open'), ::ask('c', undef, '/open'), ::ask('c', '"user":"u"', '/user'), ::ask('c', '"user":"u"', '/user'), ::ask('c', '"user":"v"', '/user')]
--- more_headers eval
[('X-Tenant: a') x 6]
--- response_body_like eval
[::cached(0, 0, 112, 0, 112, 0)]



=== TEST 4: the body's cache_salt divides and never joins
--- request eval
[::ask('d'), ::ask('d', '"cache_salt":"s"'), ::ask('d', '"cache_salt":"s"'), ::ask('d', '"cache_salt":"s"'),
 ::ask('d', '"cache_salt":"as"'), ::ask('d', '"cache_salt":"as"', '/open'), ::ask('d', '"cache_salt":"a"', '/open'), ::ask('d')]
--- more_headers eval
[('X-Tenant: a') x 3, 'X-Tenant: b', 'X-None: 1', ('X-None: 1') x 2, 'X-Tenant: a']
--- response_body_like eval
[::cached(0, 0, 112, 0, 0, 112, 0, 112)]



=== TEST 5: prompt_cache_key changes nothing
--- request eval
[::ask('e', '"prompt_cache_key":"k"'), ::ask('e', '"prompt_cache_key":"k"'), ::ask('e', '"prompt_cache_key":"other"')]
--- more_headers eval
['X-Tenant: a', 'X-Tenant: b', 'X-Tenant: a']
--- response_body_like eval
[::cached(0, 0, 112)]



=== TEST 6: text completions, each of several prompts and answers
--- request eval
[map { "POST /v1/completions\n" . '{"prompt":["' . 'f' x 33 . '","' . 'g' x 33 . '"],"n":2,"temperature":1,"max_tokens":1}' } 1 .. 3]
--- more_headers eval
['X-Tenant: a', 'X-Tenant: b', 'X-Tenant: a']
--- response_body_like eval
['"prompt_tokens":66,', '"cached_tokens":0\}', '"cached_tokens":64\}']



=== TEST 7: a cache_salt that is none
--- request eval
[::ask('h', '"cache_salt":""'), ::ask('h', '"cache_salt":1'), ::ask('h', '"cache_salt":null')]
--- error_code eval
[400, 400, 200]
--- response_body_like eval
['"param":"cache_salt","code":"invalid_value"', '"param":"cache_salt","code":"invalid_type"', '"choices"']



=== TEST 8: an answer's length where the body names none
--- config
mistral_default_max_tokens 5;
location /v1/ { mistral_pass null; }
--- request eval
["POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}]}',
 "POST /v1/completions\n" . '{"prompt":"hi"}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}],"max_tokens":7}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}],"max_new_tokens":2,"hard_max_new_tokens":9}']
--- response_body_like eval
['"completion_tokens":5,', '"completion_tokens":5,', '"completion_tokens":7,', '"completion_tokens":9,']



=== TEST 9: no answer is longer
--- config
mistral_max_tokens 10;
location /v1/ { mistral_pass null; }
location /less/ { mistral_pass null; mistral_max_tokens 4; mistral_default_max_tokens 8; }
location /more/ { mistral_pass null; mistral_max_tokens off; }
--- request eval
["POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}]}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}],"max_tokens":3}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}],"max_completion_tokens":300}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}],"max_new_tokens":6}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}],"max_new_tokens":60,"hard_max_new_tokens":90}',
 "POST /v1/completions\n" . '{"prompt":"hi","max_tokens":2147483647,"stream":true,"stream_options":{"include_usage":true}}',
 "POST /v1/completions\n" . '{"prompt":"hi","max_tokens":0,"echo":true}',
 "POST /less/completions\n" . '{"prompt":"hi"}',
 "POST /more/completions\n" . '{"prompt":"hi","max_tokens":30}']
--- response_body_like eval
['"finish_reason":"length".*"completion_tokens":10,', '"completion_tokens":3,', '"completion_tokens":10,', '"completion_tokens":10,',
 '"completion_tokens":10,', '"completion_tokens":10,', '"completion_tokens":0,', '"completion_tokens":4,', '"completion_tokens":30,']



=== TEST 10: by variables
--- http_config
mistral_model null { path null:; context 4096; }
map $http_x_tier $cap { gold 1k; silver 20; none ""; bad 12x; }
map $http_x_tier $length { gold 30; default ""; }
--- config
location /v1/ { mistral_pass null; mistral_max_tokens $cap; mistral_default_max_tokens $length; }
--- request eval
[map { "POST /v1/completions\n" . '{"prompt":"hi"' . $_ . '}' } ',"max_tokens":1500', '', ',"max_tokens":1500', '', ',"max_tokens":1500']
--- more_headers eval
['X-Tier: gold', 'X-Tier: gold', 'X-Tier: silver', 'X-Tier: silver', 'X-Tier: none']
--- response_body_like eval
['"completion_tokens":1000,', '"completion_tokens":30,', '"completion_tokens":20,', '"completion_tokens":16,', '"completion_tokens":1500,']



=== TEST 11: min_tokens asks for more than a default, not for more than the limit
--- config
location /v1/ { mistral_pass null; mistral_max_tokens 20; mistral_default_max_tokens 5; }
--- request eval
[map { "POST /v1/completions\n" . '{"prompt":"hi","min_tokens":' . $_ . '}' } 12, 30]
--- response_body_like eval
['"completion_tokens":12,', '"completion_tokens":20,']



=== TEST 12: a variable that is no number
--- config
location /v1/ { mistral_pass null; mistral_max_tokens $http_x_cap; }
--- request
POST /v1/completions
{"prompt":"hi"}
--- more_headers
X-Cap: 12x
--- error_code: 500
--- response_body_like: "code":"internal_error"
--- error_log
"mistral_max_tokens" evaluates to "12x", which is no number of tokens



=== TEST 13: the variable is what came of it
--- config
location /v1/ { mistral_pass null; mistral_max_tokens 9; access_log logs/access.log length; }
--- request
POST /v1/completions
{"prompt":"hi","max_new_tokens":3}
--- response_body_like: "completion_tokens":9,
--- access_log
200 max=9;



=== TEST 14: an empty salt in the configuration
--- config
location /v1/ { mistral_pass null; mistral_cache_salt ""; }
--- must_die
--- error_log
invalid value ""



=== TEST 15: a salt twice
--- config
location /v1/ { mistral_pass null; mistral_cache_salt a; mistral_cache_salt off; }
--- must_die
--- error_log
"mistral_cache_salt" directive is duplicate



=== TEST 16: no number
--- config
location /v1/ { mistral_pass null; mistral_max_tokens 0; }
--- must_die
--- error_log
invalid number of tokens "0" in "mistral_max_tokens" directive, it must be from 1 to 1000000000, a variable or "off"



=== TEST 17: too large a number
--- config
location /v1/ { mistral_pass null; mistral_default_max_tokens 1000000001; }
--- must_die
--- error_log
invalid number of tokens "1000000001"



=== TEST 18: an unknown variable
--- config
location /v1/ { mistral_pass null; mistral_default_max_tokens $nothing_like_it; }
--- must_die
--- error_log
unknown "nothing_like_it" variable
