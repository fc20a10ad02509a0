# Answers as server-sent events.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config',
                      'mistral_model null { path null:; context 4096; }')
        if !defined $block->http_config;
    $block->set_value('config', 'location /v1/ { mistral_pass null; }')
        if ($block->config // '') !~ /mistral_pass/;
});

ready_on();
run_tests();

__DATA__

=== TEST 1: the shape of a stream
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true}
--- response_body_like eval
::answer(<<'END')
data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[{"index":0,"delta":{"content":"T"},"logprobs":null,"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[{"index":0,"delta":{"content":"h"},"logprobs":null,"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[{"index":0,"delta":{"content":"e"},"logprobs":null,"finish_reason":null}]}

data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]}

data: [DONE]
END
--- response_headers_like
Content-Type: text/event-stream
Cache-Control: no-cache
X-Accel-Buffering: no
X-Request-ID: chatcmpl-[0-9a-f]{32}
X-Mistral-Model: null
Transfer-Encoding: chunked
--- raw_response_headers_unlike: (?i)content-length
--- no_error_log
[error]
[warn]



=== TEST 2: include_usage
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}
--- response_body_like eval
::answer(<<'END')
data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[{"index":0,"delta":{"content":"T"},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}],"usage":null}

data: {"id":"ID","object":"chat.completion.chunk","created":TIME,"model":"null","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":1,"total_tokens":21,"prompt_tokens_details":{"cached_tokens":0}}}

data: [DONE]
END



=== TEST 3: a text completion
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":2,"stream":true}
--- response_body_like eval
::answer(<<'END')
data: {"id":"ID","object":"text_completion","created":TIME,"model":"null","choices":[{"index":0,"text":"T","logprobs":null,"finish_reason":null}]}

data: {"id":"ID","object":"text_completion","created":TIME,"model":"null","choices":[{"index":0,"text":"h","logprobs":null,"finish_reason":null}]}

data: {"id":"ID","object":"text_completion","created":TIME,"model":"null","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"length"}]}

data: [DONE]
END



=== TEST 4: a stop string over several chunks: nothing of it is sent
--- http_config
mistral_model null { path null:rate=300; }
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":400,"stream":true,"stop":"quick","stream_options":{"include_usage":true}}
--- response_body_like: \A(data: [^\n]*"text":"(T|h|e| )",[^\n]*\n\n){4}data: [^\n]*"text":"","logprobs":null,"finish_reason":"stop"[^\n]*\n\n[^\n]*"completion_tokens":(9|1\d|2\d),[^\n]*\n\ndata: \[DONE\]\n\n\z



=== TEST 5: held back text comes when it is no stop string
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":6,"stream":true,"stop":"e quack"}
--- response_body_like: \A(data: [^\n]*"text":"(T|h)",[^\n]*\n\n){2}data: [^\n]*"text":"e qu",[^\n]*\n\ndata: [^\n]*"finish_reason":"length"[^\n]*\n\ndata: \[DONE\]\n\n\z



=== TEST 6: logprobs are with their text
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"stream":true,"logprobs":true,"stop":"hx"}
--- response_body_like: \Adata:[^\n]*"role"[^\n]*\n\n[^\n]*"content":"T"},"logprobs":\{"content":\[\{"token":"T"[^\n]*\n\n[^\n]*"content":"he"},"logprobs":\{"content":\[\{"token":"h"[^\n]*,\{"token":"e"[^\n]*\n\n[^\n]*"finish_reason":"length"



=== TEST 7: no half character
--- http_config
mistral_model null { path null:len=6,text=$TEST_NGINX_HTML_DIR/text; }
--- user_files eval
[["text", "a\xe2\x82\xacb\xc3"]]
--- request
POST /v1/completions
{"prompt":"hi","stream":true}
--- response_body_like eval
"\\A[^\\n]*\"text\":\"a\"[^\\n]*\\n\\n[^\\n]*\"text\":\"\xe2\x82\xac\"[^\\n]*\\n\\n"
. "[^\\n]*\"text\":\"b\"[^\\n]*\\n\\n[^\\n]*\"text\":\"\xef\xbf\xbd\"[^\\n]*\\n\\n"
. "[^\\n]*\"finish_reason\":\"stop\""



=== TEST 8: several answers in one stream
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true,"n":2,"stream_options":{"include_usage":true}}
--- response_body_like: \A(?=.*"index":0,"delta":\{"role")(?=.*"index":1,"delta":\{"role")(?=.*"index":0,"delta":\{"content":"h")(?=.*"index":1,"delta":\{"content":"h")(?=.*"index":0,"delta":\{},"logprobs":null,"finish_reason":"length")(?=.*"index":1,"delta":\{},"logprobs":null,"finish_reason":"length").*"completion_tokens":4,.*\[DONE\]\n\n\z



=== TEST 9: a stream does not wait for its end
--- http_config
mistral_model null { path null:rate=5; }
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":100,"stream":true}
--- timeout: 150ms
--- abort
--- ignore_response
--- access_log eval
qr{"POST /v1/completions HTTP/1.1" 499 [1-9]\d+ }
--- wait: 0.2



=== TEST 10: a refusal of a stream has its own status
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":"hi"}],"stream":true,"temperature":9}
--- error_code: 400
--- response_body_like: \A\{"error":\{"message":.*"param":"temperature"
--- response_headers
Content-Type: application/json



=== TEST 11: HTTP/1.0
--- request
POST /v1/completions HTTP/1.0
{"prompt":"hi","max_tokens":1,"stream":true}
--- response_body_like: \Adata: \{.*data: \[DONE\]\n\n\z
--- response_headers
! Transfer-Encoding



=== TEST 12: gzip passes each event on
--- config
location /v1/ {
    mistral_pass null;
    gzip on;
    gzip_types text/event-stream;
    gzip_min_length 0;
}
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":1,"stream":true}
--- more_headers
Accept-Encoding: gzip
--- response_headers
Content-Encoding: gzip



=== TEST 13: a whole answer is not a stream
--- request
POST /v1/completions
{"prompt":"hi","max_tokens":1,"stream":false}
--- response_body_like: \A\{"id":"cmpl-[^\n]*"text":"T"



=== TEST 14: pipelined behind a stream
--- pipelined_requests eval
["POST /v1/completions\n" . '{"prompt":"a","max_tokens":2,"stream":true}',
 "POST /v1/completions\n" . '{"prompt":"a","max_tokens":3}']
--- response_body_like eval
['\[DONE\]\n\n\z', '"text":"The"']



=== TEST 15: an answer has no ETag and no date that a condition could be about
--- request eval
[map { "POST /v1/completions\n"
       . qq({"prompt":"a","max_tokens":3,"stream":$_}) }
     (qw/ true false /) x 3]
--- more_headers eval
[("If-Match: \"x\"") x 2, ("If-None-Match: *") x 2,
 ("If-Unmodified-Since: Mon, 01 Jan 2001 00:00:00 GMT") x 2]
--- error_code eval
[(200) x 6]
--- response_body_like eval
[('\[DONE\]\n\n\z', '"text":"The"') x 3]
--- no_error_log
[error]
