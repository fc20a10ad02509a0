# What the API has beyond a chat with one answer.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Null = 'mistral_model null { path null:; context 4096; }';

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Null) if !defined $block->http_config;
    $block->set_value('config', 'location /v1/ { mistral_pass null; }')
        if ($block->config // '') !~ /mistral_pass/;
});

ready_on();
run_tests();

__DATA__

=== TEST 1: several prompts, texts and ids
--- request eval
["POST /v1/completions\n" . '{"prompt":["a","bcd"],"max_tokens":3}',
 "POST /v1/completions\n" . '{"prompt":[[97],[98,99,100],"ef"],"max_tokens":3}']
--- response_body_like eval
['"choices":\[\{"index":0,"text":"The",.*\{"index":1,"text":"The",[^{]*\],"usage":\{"prompt_tokens":4,"completion_tokens":6,"total_tokens":10,',
 '"index":0,"text":"The",.*"index":1,"text":"The",.*"index":2,"text":"The",[^{]*\],"usage":\{"prompt_tokens":6,"completion_tokens":9,']



=== TEST 2: prompts first, then answers
--- request
POST /v1/completions
{"prompt":["ab","cd"],"max_tokens":1,"n":2,"echo":true}
--- response_body_like: "index":0,"text":"abT".*"index":1,"text":"abT".*"index":2,"text":"cdT".*"index":3,"text":"cdT".*"prompt_tokens":4,"completion_tokens":4,



=== TEST 3: a list as a stream
--- request
POST /v1/completions
{"prompt":["ab","cd"],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}
--- response_body_like eval
'(?=.*"index":0,"text":"\w+","logprobs":null,"finish_reason":null)(?=.*"index":1,"text":"\w+","logprobs":null,"finish_reason":null)'
. '(?=.*"index":0,"text":"","logprobs":null,"finish_reason":"length")(?=.*"index":1,"text":"","logprobs":null,"finish_reason":"length")'
. '.*"usage":\{"prompt_tokens":4,"completion_tokens":4,.*DONE'



=== TEST 4: one of the prompts is wrong
--- request eval
["POST /v1/completions\n" . '{"prompt":["a",[1,2],""]}',
 "POST /v1/completions\n" . '{"prompt":["a","' . 'x' x 4096 . '"]}',
 "POST /v1/completions\n" . '{"prompt":[[1],[2,256]]}']
--- error_code eval
[400, 400, 400]
--- response_body_like eval
['prompt\[2\] is empty.*"param":"prompt\[2\]"', 'but prompt\[1\] has 4096 .*"param":"prompt\[1\]","code":"context_length_exceeded"', 'prompt\[1\]\[1\] is 256.*"param":"prompt\[1\]\[1\]"']



=== TEST 5: echo
--- request eval
["POST /v1/completions\n" . '{"prompt":"a\u00e9 ","max_tokens":3,"echo":true}',
 "POST /v1/completions\n" . '{"prompt":[104,105],"max_tokens":3,"echo":true}',
 "POST /v1/completions\n" . '{"prompt":"hi","max_tokens":3,"echo":true,"stream":true}',
 "POST /v1/completions\n" . '{"prompt":"quick","max_tokens":30,"echo":true,"stop":"quick"}']
--- response_body_like eval
["\"text\":\"a\xc3\xa9 The\"", '"text":"hiThe"', '"text":"hi\w*".*DONE', '"text":"quickThe "']



=== TEST 6: the prompt alone
--- request eval
["POST /v1/completions\n" . '{"prompt":"hi","max_tokens":0,"echo":true}',
 "POST /v1/completions\n" . '{"prompt":"hi","max_tokens":0,"echo":true,"stream":true}',
 "POST /v1/completions\n" . '{"prompt":"hi","max_tokens":0}']
--- error_code eval
[200, 200, 400]
--- response_body_like eval
['"text":"hi","logprobs":null,"finish_reason":"length".*"prompt_tokens":2,"completion_tokens":0,"total_tokens":2,',
 '"text":"hi".*"finish_reason":"length".*DONE', '"param":"max_tokens"']



=== TEST 7: what completions do not serve
--- request eval
[map { "POST /v1/completions\n" . '{"prompt":"hi",' . $_ . '}' }
 '"prompt_logprobs":1', '"suffix":"x"', '"best_of":3', '"best_of":1,"n":2', '"safe_prompt":true']
--- error_code eval
[(400) x 5]
--- response_body_like eval
['"param":"prompt_logprobs","code":"unsupported"', '"param":"suffix","code":"unsupported"',
 '"param":"best_of","code":"unsupported"', '"param":"best_of","code":"invalid_value"',
 '"param":"safe_prompt","code":"unsupported"']



=== TEST 8: equal answers are computed once
--- config
location /v1/ { mistral_pass null; }
location = /status { mistral_status json; }
--- request eval
["POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"n":4,"temperature":0}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"n":2,"temperature":0,"stream":true}',
 "POST /v1/completions\n" . '{"prompt":["a","b"],"max_tokens":2,"n":2,"temperature":0,"echo":true}',
 "GET /status"]
--- response_body_like eval
['("content":"The".*){4}"usage":\{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23,',
 '(?=.*"index":0,"delta":\{"role")(?=.*"index":1,"delta":\{"role").*"index":0,[^{]*\{"content":"T.*"index":1,[^{]*\{"content":"T.*("finish_reason":"length".*){2}DONE',
 '"index":0,"text":"aTh".*"index":1,"text":"aTh".*"index":2,"text":"bTh".*"index":3,"text":"bTh".*"completion_tokens":4,',
 '"completion_tokens":9,.*"finished":4,']



=== TEST 9: more answers than places
--- http_config
mistral_model null { path null:; max_batch 2; }
--- config
location /v1/ { mistral_pass null; mistral_queue 1; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","n":4,"max_tokens":1}',
 "POST /v1/completions\n" . '{"prompt":["a","b","c","d"],"max_tokens":1}',
 "POST /v1/completions\n" . '{"prompt":"a","n":4,"max_tokens":1,"temperature":0}',
 "POST /v1/completions\n" . '{"prompt":"a","n":3,"max_tokens":1}']
--- error_code eval
[400, 400, 200, 200]
--- response_body_like eval
['for 4 answers at once, this server takes at most 3.*"param":"n"', '"param":"prompt"', '("text":"T".*){4}', '("text":"T".*){3}']



=== TEST 10: a prefix is continued and repeated
--- request eval
["POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"So ","prefix":true}],"max_tokens":3}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"So ","prefix":true}],"max_tokens":3,"stream":true}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"So "}],"max_tokens":3,"continue_final_message":true,"add_generation_prompt":false}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"assistant","content":"So ","prefix":true},{"role":"user","content":"x"}]}']
--- error_code eval
[200, 200, 200, 400]
--- response_body_like eval
['"content":"So The".*"prompt_tokens":22,"completion_tokens":3,',
 '"role":"assistant","content":"".*"content":"So .*DONE', '"content":"The".*"prompt_tokens":22,',
 '"param":"messages\[0\].prefix"']



=== TEST 11: safe_prompt is a first system message
--- request eval
["POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"safe_prompt":true}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"safe_prompt":false}',
 "POST /v1/detokenize\n" . '{"tokens":[' . CORE::join(',', unpack 'C*', 'system: Always') . ']}',
 "POST /v1/tokenize\n" . '{"messages":[{"role":"user","content":"x"}],"safe_prompt":true}']
--- response_body_like eval
['"prompt_tokens":221,', '"prompt_tokens":19,', 'system: Always',
 quotemeta('{"tokens":[' . CORE::join(',', unpack 'C*', 'system: Always'))  . ',.*"count":221,']



=== TEST 12: turns of tokenize
--- request eval
[map { "POST /v1/tokenize\n" . '{"messages":[{"role":"assistant","content":"x"}],' . $_ . '}' }
 '"add_generation_prompt":true', '"add_generation_prompt":false', '"continue_final_message":true',
 '"add_special_tokens":false']
--- response_body_like eval
['"count":24,', '"count":13,', '"count":12,', '"count":24,']



=== TEST 13: fields that change nothing here
--- request
POST /v1/chat/completions
{"messages":[{"role":"developer","content":"a","name":"boss"},{"role":"user","content":"b","name":"ann"}],"max_tokens":3,"user":"u","metadata":{"k":"v"},"store":false,"service_tier":"auto","parallel_tool_calls":true,"random_seed":5,"seed":6}
--- response_body_like: "content":"The".*"prompt_tokens":29,



=== TEST 14: OPTIONS
--- request eval
["OPTIONS /v1/chat/completions", "OPTIONS /v1/models", "OPTIONS /v1/zebra"]
--- error_code eval
[204, 204, 404]
--- response_headers eval
["Allow: POST, OPTIONS", "Allow: GET, HEAD, OPTIONS", "! Allow"]
--- response_body_like eval
['^$', '^$', 'unknown_url']



=== TEST 15: CORS is nginx's add_header
--- config
location /v1/ {
    mistral_pass  null;
    add_header    Access-Control-Allow-Origin "*" always;
    add_header    Access-Control-Allow-Headers "Authorization, Content-Type" always;
}
--- request eval
["OPTIONS /v1/chat/completions", "POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}',
 "POST /v1/completions\n{}"]
--- error_code eval
[204, 200, 400]
--- response_headers eval
[("Access-Control-Allow-Origin: *") x 3]
--- response_body_like eval
['^$', 'T', 'prompt']



=== TEST 16: many prompts in slices
--- http_config
mistral_model null { path null:; max_batch 400; kv_cache f32 size=64m; }
--- request eval
"POST /v1/completions\n" . '{"prompt":[' . CORE::join(',', map { '"' . 'word ' x 40 . $_ . '"' } 100 .. 399) . '],"max_tokens":1}'
--- response_body_like: "index":299,"text":"T".*"prompt_tokens":60900,"completion_tokens":300,



=== TEST 17: mistral_pass $mistral_model: the body alone decides
--- http_config
mistral_model null { path null:; }
mistral_model other { path null:len=7; alias org/second:7b; }
--- config
location /v1/ { mistral_pass $mistral_model; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","model":"null"}',
 "POST /v1/completions\n" . '{"prompt":"a","model":"org/second:7b"}',
 "POST /v1/completions\n" . '{"prompt":"a","model":"third"}',
 "POST /v1/completions\n" . '{"prompt":"a"}',
 "GET /v1/models"]
--- error_code eval
[200, 200, 404, 404, 200]
--- response_headers eval
["X-Mistral-Model: null", "X-Mistral-Model: other", "! X-Mistral-Model",
 "! X-Mistral-Model", "! X-Mistral-Model"]
--- response_body_like eval
['"model":"null".*"text":"The quick brown "', '"model":"org/second:7b".*"text":"The qui"',
 'The model \\\\"third\\\\" does not exist', 'The request names no model',
 '"id":"null".*"id":"other".*"id":"org/second:7b"']



=== TEST 18: mistral_pass $variable: the location decides, not the body
--- http_config
mistral_model null { path null:; }
mistral_model other { path null:len=7; }
--- config
location /v1/ { set $who other; mistral_pass $who; }
--- request
POST /v1/completions
{"prompt":"a","model":"null"}
--- response_headers
X-Mistral-Model: other
--- response_body_like: "model":"null".*"text":"The qui"



=== TEST 19: mistral_pass ALIAS
--- http_config
mistral_model other { path null:len=7; alias org/second:7b; }
--- config
location /v1/ { mistral_pass org/second:7b; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"a"}',
 "POST /v1/completions\n" . '{"prompt":"a","model":"other"}']
--- response_headers eval
["X-Mistral-Model: other", "X-Mistral-Model: other"]
--- response_body_like eval
['"model":"other".*"text":"The qui"', '"model":"other".*"text":"The qui"']



=== TEST 20: a null content says what it is
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":null}]}
--- error_code: 400
--- response_body_like: content is null, must be a string or a list of text parts



=== TEST 21: each prompt may fill the context by itself
--- request eval
["POST /v1/completions\n" . '{"prompt":["abcd","' . 'x' x 3000 . '"],"max_tokens":4096}',
 "POST /v1/completions\n" . '{"prompt":["' . 'x' x 3000 . '","abcd"],"max_tokens":4096}']
--- response_body_like eval
[('"prompt_tokens":3004,"completion_tokens":5188,"total_tokens":8192') x 2]



=== TEST 22: the log-probabilities of an echo
--- request eval
[map { "POST /v1/completions\n{\"echo\":true,\"logprobs\":1,$_}" }
 '"prompt":"hi","max_tokens":2', '"prompt":"hi","max_tokens":0', '"prompt":[104,105],"max_tokens":1,"n":2',
 '"prompt":"a\u00e9b","max_tokens":1', '"prompt":["x","yz"],"max_tokens":0', '"prompt":[120,195],"max_tokens":1,"logprobs":0',
 '"prompt":"' . 'x' x 3000 . '","max_tokens":2,"temperature":0,"n":2']
--- response_body_like eval
my $two = '"text":"hiT","logprobs":\{"tokens":\["h","i","T"\],"token_logprobs":\[null,0,0\],"top_logprobs":\[null,\{"i":0\},\{"T":0\}\],"text_offset":\[0,1,2\]\}';
['"text":"hiTh","logprobs":\{"tokens":\["h","i","T","h"\],"token_logprobs":\[null,0,0,0\],"top_logprobs":\[null,\{"i":0\},\{"T":0\},\{"h":0\}\],"text_offset":\[0,1,2,3\]\}.*"prompt_tokens":2,"completion_tokens":2,',
 '"text":"hi","logprobs":\{"tokens":\["h","i"\],"token_logprobs":\[null,0\],"top_logprobs":\[null,\{"i":0\}\],"text_offset":\[0,1\]\},"finish_reason":"length".*"completion_tokens":0,',
 "\"index\":0,$two.*\"index\":1,$two.*\"completion_tokens\":2,",
 "\"text\":\"a\xc3\xa9bT\".*\"tokens\":\\[\"a\",\"bytes:.*,\"b\",\"T\"\\].*\"text_offset\":\\[0,1,1,2,3\\]",
 '"index":0,"text":"x","logprobs":\{"tokens":\["x"\],"token_logprobs":\[null\].*"index":1,"text":"yz","logprobs":\{"tokens":\["y","z"\],"token_logprobs":\[null,0\]',
 '"text_offset":\[0,1,2\]', '"text_offset":\[0,1,2,.*,2999,3000,3001\].*"text_offset":\[0,1,2,.*,2999,3000,3001\].*"completion_tokens":2,']



=== TEST 23: as a stream, and computed whatever the cache has
--- request eval
["POST /v1/completions\n" . '{"echo":true,"logprobs":0,"prompt":"' . 'abcdefgh' x 8 . '","max_tokens":2}',
 "POST /v1/completions\n" . '{"echo":true,"logprobs":0,"prompt":"' . 'abcdefgh' x 8 . '","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}',
 "POST /v1/completions\n" . '{"prompt":"' . 'abcdefgh' x 8 . '","max_tokens":2,"logprobs":0}']
--- response_body_like eval
['"token_logprobs":\[null(?:,0){65}\].*"cached_tokens":0\}',
 '\Adata: [^\n]*"text":"(?:abcdefgh){8}(?:T|Th)?","logprobs":\{"tokens":\["a","b",.*"text_offset":\[0,1,2,.*"cached_tokens":0\}.*DONE\]',
 '"token_logprobs":\[0,0\].*"cached_tokens":48\}']
