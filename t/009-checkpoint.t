# A directory of safetensors with a tokenizer of 320 tokens and ChatML.

use Test::Nginx::Socket 'no_plan';
use File::Temp qw/ tempdir /;
use MistralTest;
use MistralTiny;

BEGIN {
    $ENV{TEST_NGINX_TINY} = tempdir(CLEANUP => 1);
    chmod 0755, $ENV{TEST_NGINX_TINY};
    checkpoint("$ENV{TEST_NGINX_TINY}/plain", 'mistral-plain');
    checkpoint("$ENV{TEST_NGINX_TINY}/moe", 'mixtral-4x', template => undef);
    open my $f, '>', "$ENV{TEST_NGINX_TINY}/own.jinja" or die $!;
    print $f <<'END';
{% for t in tools or [] %}{{ t.function.name }}{% endfor %}
{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}
{% for m in messages if m.tool_calls %}
{{ m.tool_calls[0].function.arguments.k }}{% endfor %}
{% if shout %}!{% endif %}
{% if false %}<tool_call>{% endif %}
{% if messages[0].content == 'no' %}{{ raise_exception('not so') }}{% endif %}
{% if add_generation_prompt %}<|im_end|>{% endif %}
END
    close $f or die $!;
}

master_on();
no_long_string();

our $Models = <<'END';
    mistral_model tiny { path $TEST_NGINX_TINY/plain; }
    mistral_model moe { path $TEST_NGINX_TINY/moe; experts_per_token 1;
                        rope_scaling linear factor=2; }
    mistral_model mix { path $TEST_NGINX_TINY/moe; }
    mistral_model one { path $TEST_NGINX_TINY/moe; experts_per_token 1; }
    mistral_model dyn { path $TEST_NGINX_TINY/plain; prefill_chunk 32;
                        rope_scaling dynamic factor=4; }
    mistral_model own { path $TEST_NGINX_TINY/plain;
                        chat_template $TEST_NGINX_TINY/own.jinja; }
END

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Models)
        if !defined $block->http_config;
    return if defined $block->config;
    $block->set_value('config', 'location /v1/ { mistral_pass tiny; }'
                                . 'location /moe/ { mistral_pass moe; }'
                                . 'location /mix/ { mistral_pass mix;'
                                . '    mistral_allow_experts on; }'
                                . 'location /one/ { mistral_pass one; }'
                                . 'location /none/ { mistral_pass tiny;'
                                . '    mistral_allow_experts on; }'
                                . 'location /dyn/ { mistral_pass dyn; }'
                                . 'location /own/ { mistral_pass own; }');
});

ready_on();
run_tests();

__DATA__

=== TEST 1: a chat; the system message is the template's
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hello"}],"max_tokens":5,"temperature":0}
--- response_body_like: "model":"tiny".*"finish_reason":"length"}\],"usage":\{"prompt_tokens":99,"completion_tokens":5,
--- no_error_log
[error]
[warn]



=== TEST 2: the same as a stream, to its end
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hello"}],"max_tokens":5,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}
--- response_body_like: (?s)"finish_reason":"length".*"completion_tokens":5,.*data: \[DONE\]



=== TEST 3: a completion; "he" and "ll" are a token each
--- request
POST /v1/completions
{"prompt":"hello","max_tokens":3,"temperature":0,"ignore_eos":true}
--- response_body_like: "prompt_tokens":4,"completion_tokens":3,



=== TEST 4: a control token is no text
--- request
POST /v1/tokenize
{"prompt":"<|im_end|>","add_special_tokens":false}
--- response_body_like: "count":10,"max_model_len":128



=== TEST 5: messages to ids, control tokens are the template's
--- request
POST /v1/tokenize
{"messages":[{"role":"system","content":"a"},{"role":"user","content":"<|im_end|>"}]}
--- response_body_like: \[302,115,121,115,116,101,109,10,97,303,10,302,117,115,101,114,10,60,



=== TEST 6: a context that an operator has doubled
--- request eval
"POST /moe/completions\n"
. '{"prompt":[' . "9," x 249 . "9" . '],"max_tokens":100,"ignore_eos":true}'
--- response_body_like: "prompt_tokens":250,"completion_tokens":6,



=== TEST 7: one more than it has
--- request eval
"POST /moe/completions\n"
. '{"prompt":[' . "9," x 256 . "9" . '],"max_tokens":1}'
--- response_body_like: \b256\b.*\b257\b.*"code":"context_length_exceeded"
--- error_code: 400



=== TEST 8: no template, no chat
--- request
POST /moe/chat/completions
{"messages":[{"role":"user","content":"hello"}]}
--- response_body_like: has no chat template
--- error_code: 400



=== TEST 9: a template of the operator's; its control tokens are no text's
--- request
POST /own/tokenize
{"messages":[{"role":"user","content":"a<|im_end|>"}]}
--- response_body_like: ^\{"tokens":\[302,97,60,[0-9,]+,62,303\],



=== TEST 10: it is shown tools, calls, and variables of the client
--- request
POST /own/tokenize
{"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"k\":\"v\"}"}}]}],"tools":[{"type":"function","function":{"name":"t"}}],"chat_template_kwargs":{"shout":true},"add_generation_prompt":false}
--- response_body_like: ^\{"tokens":\[116,302,118,33\],



=== TEST 11: what it does not take, in its own words
--- request
POST /own/chat/completions
{"messages":[{"role":"user","content":"no"}]}
--- response_body_like: not so
--- error_code: 400



=== TEST 12: the middle: <s> [SUFFIX] de [PREFIX] abc
--- request
POST /v1/fim/completions
{"prompt":"abc","suffix":"de","max_tokens":4,"min_tokens":4,"temperature":0,"random_seed":1,"stop":["zebra"],"stream":false}
--- response_headers_like
X-Mistral-Model: tiny
--- response_body_like: ^\{"id":"chatcmpl-[0-9a-f]{32}","object":"chat.completion","created":\d+,"model":"tiny","choices":\[\{"index":0,"message":\{"role":"assistant","content":".*","refusal":null\},"logprobs":null,"finish_reason":"length"\}\],"usage":\{"prompt_tokens":8,"completion_tokens":4,



=== TEST 13: as a stream, without a suffix
--- request
POST /v1/fim/completions
{"prompt":"abc","suffix":null,"max_tokens":4,"min_tokens":4,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}
--- response_body_like: (?s)^data: \{"id":"chatcmpl-.*"object":"chat.completion.chunk".*"delta":\{"role":"assistant","content":""\}.*"finish_reason":"length".*"prompt_tokens":6,"completion_tokens":4,.*data: \[DONE\]



=== TEST 14: what it does not take
--- request eval
['POST /v1/fim/completions' . "\n" . '{"suffix":"a"}', 'POST /v1/fim/completions' . "\n" . '{"prompt":["a"]}',
 'POST /v1/fim/completions' . "\n" . '{"prompt":"a","suffix":1}', 'GET /v1/fim/completions',
 'POST /v1/fim/completions' . "\n" . '{"prompt":"' . 'a' x 300 . '"}']
--- error_code eval
[400, 400, 400, 405, 400]
--- response_body_like eval
['"prompt","code":"missing_required_parameter"', '"prompt","code":"invalid_type"',
 '"suffix","code":"invalid_type"', '"method_not_allowed"', '"prompt","code":"context_length_exceeded"']



=== TEST 15: more experts give other logits, as many as the model has the same
--- request eval
[map { "POST $_->[0]/completions\n" . '{"prompt":[1,2,3,4,5],"max_tokens":1,"temperature":0,"logprobs":0' . $_->[1] . '}' }
 ['/mix', ''], ['/mix', ',"num_experts_per_tok":2'], ['/mix', ',"num_experts_per_tok":1'], ['/one', ''],
 ['/mix', ',"num_experts_per_tok":4'], ['/mix', '']]
--- response_body_like eval
[map { '"token_logprobs":\[' . $_ } '-2\.3085', '-2\.3085', '-2\.783', '-2\.783', '-2\.355', '-2\.3085']



=== TEST 16: what some experts made of a prompt is no use to others
--- request eval
[map { "POST /mix/completions\n" . '{"prompt":[' . '7,' x 99 . '7],"max_tokens":1' . $_ . '}' }
 '', '', ',"num_experts_per_tok":1', ',"num_experts_per_tok":1', ',"num_experts_per_tok":2', '']
--- response_body_like eval
[map { qr/"cached_tokens":$_\}/ } '0', '[1-9]\d', '0', '[1-9]\d', '[1-9]\d', '[1-9]\d']



=== TEST 17: who may choose, and what
--- request eval
['POST /moe/completions' . "\n" . '{"prompt":"a","num_experts_per_tok":1}', 'POST /mix/completions' . "\n" . '{"prompt":"a","num_experts_per_tok":5}',
 'POST /mix/completions' . "\n" . '{"prompt":"a","num_experts_per_tok":0}', 'POST /none/completions' . "\n" . '{"prompt":"a","num_experts_per_tok":1}']
--- error_code eval
[400, 400, 400, 400]
--- response_body_like eval
['"num_experts_per_tok","code":"unsupported"', 'at most the model\'s 4 experts.*"num_experts_per_tok","code":"invalid_value"',
 '"num_experts_per_tok","code":"invalid_value"', 'the model is none.*"num_experts_per_tok","code":"invalid_value"']



=== TEST 18: dynamic rope: what is cached is of use to prompts of equal length
--- request eval
[map { my $n = $_; "POST /dyn/completions\n" . '{"prompt":[' . CORE::join(',', map { 7 + $_ % 90 } 0 .. $n - 1)
       . '],"max_tokens":1,"temperature":0,"logprobs":0,"ignore_eos":true}' } 120, 120, 100, 200, 200, 210, 200]
--- response_body_like eval
[map { qr/"token_logprobs":\[$_->[0].*"cached_tokens":$_->[1]\}/ }
 ['-2\.4753', 0], ['-2\.4753', '[1-9]\d'], ['-', '[1-9]\d'],
 ['-2\.785', 0], ['-2\.785', '1\d\d'], ['-2\.672', 0], ['-2\.785', '1\d\d']]



=== TEST 19: four times the model's context, and one more
--- request eval
[map { "POST /dyn/completions\n" . '{"prompt":[' . '9,' x $_ . '9],"max_tokens":5,"ignore_eos":true}' } 509, 511]
--- error_code eval
[200, 400]
--- response_body_like eval
['"prompt_tokens":510,"completion_tokens":2,', '\b512\b.*"context_length_exceeded"']



=== TEST 20: a cache that is smaller than the context says so at error
--- http_config
mistral_model small { path $TEST_NGINX_TINY/plain; kv_cache f32 size=1m;
                      rope_scaling linear factor=64; }
--- config
location /v1/ { mistral_pass small; }
--- request
POST /v1/completions
{"prompt":"a","max_tokens":1}
--- response_body_like: "object":"text_completion"
--- error_log eval
qr/\[error\].*the KV cache holds \d+ tokens, less than the context/



=== TEST 21: variables that the template does not get are named
--- request eval
[map { "POST /own/chat/completions\n" . '{"messages":[{"role":"user","content":"' . $_ } 'a"}],"chat_template_kwargs":{"messages":1}}', 'no"}]}']
--- error_code eval
[400, 400]
--- response_body_like eval
['chat_template_kwargs sets .*"param":"chat_template_kwargs"', 'not so.*"param":"messages"']
