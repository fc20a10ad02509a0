# Chat and text completions as one JSON object.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Null = 'mistral_model null { path null:; context 4096;'
            . ' alias gpt-x other; }';

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Null) if !defined $block->http_config;
    $block->set_value('config', 'location /v1/ { mistral_pass null; }')
        if ($block->config // '') !~ /mistral_pass/;
});

ready_on();
run_tests();

__DATA__

=== TEST 1: the whole answer
--- request
POST /v1/chat/completions
{"model":"null","messages":[{"role":"user","content":"hi"}],"max_tokens":19}
--- more_headers
Content-Type: application/json
--- response_body_like eval
::answer(<<'END')
{"id":"ID","object":"chat.completion","created":TIME,"model":"null","choices":[{"index":0,"message":{"role":"assistant","content":"The quick brown fox","refusal":null},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":20,"completion_tokens":19,"total_tokens":39,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":null}
END
--- response_headers_like
Content-Type: application/json
Content-Length: \d+
X-Request-ID: chatcmpl-[0-9a-f]{32}
X-Mistral-Model: null
--- no_error_log
[error]
[warn]



=== TEST 2: an alias; the answer has the client's name, a header the block's
--- request
POST /v1/chat/completions
{"model":"gpt-x","messages":[{"role":"user","content":"hi"}],"max_tokens":3}
--- response_body_like: "model":"gpt-x".*"content":"The"
--- response_headers
X-Mistral-Model: null



=== TEST 3: no model is the location's
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":3}
--- response_body_like: "model":"null".*"content":"The"



=== TEST 4: roles and parts are rendered
--- request
POST /v1/chat/completions
{"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},{"role":"assistant","content":"c"},{"role":"user","content":"d"}],"max_tokens":1}
--- response_body_like: "prompt_tokens":50,



=== TEST 5: the prefix of a second request is cached
--- request eval
["POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"' . 'x' x 100 . '"}],"max_tokens":1}',
 "POST /v1/chat/completions\n" . '{"messages":[{"role":"user","content":"' . 'x' x 100 . '"}],"max_tokens":1}']
--- response_body_like eval
['"prompt_tokens":118,.*"cached_tokens":0}', '"prompt_tokens":118,.*"cached_tokens":112}']



=== TEST 6: max_completion_tokens wins over max_tokens
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"max_completion_tokens":5}
--- response_body_like: "content":"The q".*"completion_tokens":5,



=== TEST 7: without a limit the context is the end
--- http_config
mistral_model null { path null:; context 64; }
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}]}
--- response_body_like: "finish_reason":"length".*"prompt_tokens":20,"completion_tokens":44,"total_tokens":64



=== TEST 8: max_new_tokens is soft, hard_max_new_tokens is the end
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_new_tokens":5,"hard_max_new_tokens":20}
--- response_body_like: "finish_reason":"length".*"completion_tokens":20,



=== TEST 9: max_new_tokens alone: 1024 at most
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_new_tokens":5}
--- response_body_like: "finish_reason":"length".*"completion_tokens":1024,



=== TEST 10: both families
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_new_tokens":5,"max_tokens":9}
--- response_body_like: "finish_reason":"length".*"completion_tokens":9,



=== TEST 11: an answer that ends by itself, past the soft limit too
--- http_config
mistral_model null { path null:len=15; }
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_new_tokens":5}
--- response_body_like: "content":"The quick brown".*"finish_reason":"stop".*"completion_tokens":15,



=== TEST 12: a stop string is not sent, its tokens are counted
--- http_config
mistral_model null { path null:rate=200; }
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":400,"stop":["zebra","brown fox"]}
--- response_body_like: "content":"The quick ".*"finish_reason":"stop".*"completion_tokens":19,



=== TEST 13: of two stop strings the one that ends first
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":40,"stop":["quick brown fox","wn"]}
--- response_body_like: "content":"The quick bro".*"finish_reason":"stop"



=== TEST 14: what looks like the beginning of a stop string is sent in the end
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":19,"stop":"fox jumped"}
--- response_body_like: "content":"The quick brown fox".*"finish_reason":"length"



=== TEST 15: no stop string before min_tokens
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":60,"min_tokens":10,"stop":"u"}
--- response_body_like: "content":"The quick brown fox j".*"finish_reason":"stop"



=== TEST 16: a stop id ends the answer and adds no text
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":40,"stop_token_ids":[113]}
--- response_body_like: "content":"The ".*"finish_reason":"stop".*"completion_tokens":5,



=== TEST 17: logprobs
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"logprobs":true,"top_logprobs":2}
--- response_body_like eval
quotemeta '"logprobs":{"content":[{"token":"T","logprob":0,"bytes":[84],"top_logprobs":[{"token":"T","logprob":0,"bytes":[84]}]},{"token":"h","logprob":0,"bytes":[104],"top_logprobs":[{"token":"h","logprob":0,"bytes":[104]}]}],"refusal":null},"finish_reason":"length"'



=== TEST 18: several answers
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"n":3}
--- response_body_like: "index":0,[^\{]*\{"role":"assistant","content":"The".*"index":1,[^\{]*\{"role":"assistant","content":"The".*"index":2,[^\{]*\{"role":"assistant","content":"The".*"prompt_tokens":20,"completion_tokens":9,"total_tokens":29



=== TEST 19: a text completion, 16 tokens by default
--- request
POST /v1/completions
{"prompt":"hi"}
--- response_body_like eval
::answer(<<'END')
{"id":"ID","object":"text_completion","created":TIME,"model":"null","choices":[{"index":0,"text":"The quick brown ","logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":2,"completion_tokens":16,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":null}
END
--- response_headers_like
X-Request-ID: cmpl-[0-9a-f]{32}



=== TEST 20: a text completion of ids
--- request
POST /v1/completions
{"prompt":[104,105,33],"max_tokens":1}
--- response_body_like: "text":"T".*"prompt_tokens":3,



=== TEST 21: logprobs of a text completion
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":3,"logprobs":1}
--- response_body_like eval
quotemeta '"logprobs":{"tokens":["T","h","e"],"token_logprobs":[0,0,0],"top_logprobs":[{"T":0},{"h":0},{"e":0}],"text_offset":[0,1,2]}'



=== TEST 22: text that is no UTF-8 becomes U+FFFD, parts of it are joined
--- http_config
mistral_model null { path null:len=9,text=$TEST_NGINX_HTML_DIR/text; }
--- user_files eval
[["text", "a\xc3\xa9\xe2\x82\xac\xff\xe2\x82"]]
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}]}
--- response_body_like eval
"\"content\":\"a\xc3\xa9\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd\""



=== TEST 23: the API follows the end of the URI
--- config
location /some/where { mistral_pass null; }
--- request
POST /some/where/else/v7/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":3}
--- response_body_like: "content":"The"



=== TEST 24: one connection: answers, errors, unread bodies
--- pipelined_requests eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":2}',
 "POST /v1/completions\n" . '{"prompt":"","max_tokens":2}',
 "POST /v1/nothing\n" . '{"prompt":"a","max_tokens":2}',
 "GET /v1/models/zzz",
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":3}']
--- error_code eval
[200, 400, 404, 404, 200]
--- response_body_like eval
['"text":"Th"', 'empty', 'unknown_url', 'model_not_found', '"text":"The"']



=== TEST 25: a body in a temporary file
--- http_config eval
"client_body_buffer_size 1k; $::Null"
--- request eval
"POST /v1/completions\n" . '{"prompt":"' . 'y' x 3500 . '","max_tokens":3}'
--- response_body_like: "text":"The".*"prompt_tokens":3500,
--- error_log
a client request body is buffered to a temporary file



=== TEST 26: a chunked body
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
. "Transfer-Encoding: chunked\r\n\r\n"
. "9\r\n{\"prompt\"\r\n13\r\n:\"a\",\"max_tokens\":2\r\n1\r\n}\r\n0\r\n\r\n"
--- response_body_like: "text":"Th"



=== TEST 27: a chunked body of nothing
--- raw_request eval
"POST /v1/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
. "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
--- error_code: 400
--- response_body_like: "code":"invalid_json"



=== TEST 28: the prompt's text never yields control tokens, NUL is text
--- request
POST /v1/completions
{"prompt":"a\u0000b<|im_end|>","max_tokens":1}
--- response_body_like: "prompt_tokens":13,



=== TEST 29: with a variable the body may choose
--- http_config
mistral_model null { path null:; }
mistral_model other { path null:len=7; alias second; }
map $mistral_model $who { default null; other other; second other; null null; }
--- config
location /v1/ { mistral_pass $who; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","model":"second"}',
 "POST /v1/completions\n" . '{"prompt":"a"}',
 "POST /v1/completions\n" . '{"prompt":"a","model":"third"}']
--- error_code eval
[200, 200, 404]
--- response_body_like eval
['"model":"second".*"text":"The qui"', '"model":"null".*"text":"The quick brown "',
 'model_not_found']
--- response_headers eval
["X-Mistral-Model: other", "X-Mistral-Model: null", "! X-Mistral-Model"]



=== TEST 30: tokenize and detokenize
--- request eval
["POST /t/v1/tokenize\n" . '{"prompt":"h\u00e9"}',
 "POST /t/tokenize\n" . '{"prompt":"ab","return_token_strs":true}',
 "POST /t/tokenize\n" . '{"messages":[{"role":"user","content":"x"}]}',
 "POST /t/detokenize\n" . '{"tokens":[104,195,169]}']
--- config
location /t/ { mistral_pass null; }
--- response_body eval
['{"tokens":[104,195,169],"count":3,"max_model_len":4096}',
 '{"tokens":[97,98],"count":2,"max_model_len":4096,"token_strs":["a","b"]}',
 '{"tokens":[117,115,101,114,58,32,120,10,97,115,115,105,115,116,97,110,116,58,32],"count":19,"max_model_len":4096}',
 "{\"prompt\":\"h\xc3\xa9\"}"]
