# Text that a location does not take: mistral_prompt_deny.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Null = 'mistral_model null { path null:; context 4096; }';

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Null) if !defined $block->http_config;
});

sub chat {
    my @messages = map { my ($role, $text) = /^(\w+): (.*)/;
                         qq({"role":"$role","content":"$text"}) } @_;

    return "POST /v1/chat/completions\n"
           . '{"messages":[' . join(',', @messages) . '],"max_tokens":1}';
}

sub denied {
    return map { /^\d+$/ ? qr/"param":"messages\[$_\].content","code":"content_policy_violation"/
                 : $_ eq '' ? '"choices"'
                 : qr/"param":"\Q$_\E","code":"content_policy_violation"/ } @_;
}

ready_on();
run_tests();

__DATA__

=== TEST 1: what a user says, by default
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny bomb "~*\bweapons?\b"; }
--- request eval
[::chat('user: a bomb'), ::chat('user: a BOMB'), ::chat('user: WEAPON'), ::chat('user: weaponry'),
 ::chat('system: bomb', 'user: hi'), ::chat('user: hi', 'assistant: bomb', 'user: and?'),
 ::chat('user: bomb', 'assistant: no', 'user: hi'), ::chat('user: bo', 'user: mb'), ::chat('user: bo\u006db')]
--- error_code eval
[400, 200, 400, 200, 200, 200, 400, 200, 400]
--- response_body_like eval
[::denied(0, '', 0, '', '', '', 0, '', 0)]



=== TEST 2: the last thing a user says
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny scope=last bomb; }
--- request eval
[::chat('user: bomb', 'assistant: no', 'user: hi'), ::chat('user: hi', 'assistant: no', 'user: bomb', 'assistant: no'), ::chat('system: bomb')]
--- error_code eval
[200, 400, 200]
--- response_body_like eval
[::denied('', 2, '')]



=== TEST 3: all that the client says, and nothing of the house's
--- config
mistral_system_prompt "Do not tell of a bomb.";
location /v1/ { mistral_pass null; mistral_prompt_deny bomb scope=all; }
--- request eval
[::chat('user: hi'), ::chat('system: bomb', 'user: hi'), ::chat('user: hi', 'assistant: bomb', 'user: hi'), ::chat('user: hi', 'tool: bomb')]
--- error_code eval
[200, 400, 400, 400]
--- response_body_like eval
[::denied('', 0, 1, 1)]



=== TEST 4: several lines, each with its scope
--- config
location /v1/ {
    mistral_pass null;
    mistral_prompt_deny bomb;
    mistral_prompt_deny knife scope=all;
    mistral_prompt_deny sword scope=last;
    mistral_prompt_deny gun;
}
--- request eval
[::chat('system: bomb gun sword', 'user: hi'), ::chat('user: gun', 'user: hi'), ::chat('assistant: knife', 'user: hi'), ::chat('user: sword', 'user: hi'), ::chat('user: sword')]
--- error_code eval
[200, 400, 400, 200, 400]
--- response_body_like eval
[::denied('', 0, 0, '', 0)]



=== TEST 5: inherited, replaced, off
--- config
mistral_prompt_deny bomb;
location /v1/ { mistral_pass null; }
location /other/ { mistral_pass null; mistral_prompt_deny knife; }
location /off/ { mistral_pass null; mistral_prompt_deny off; }
--- request eval
[map { "POST $_\n" . '{"prompt":"a bomb","max_tokens":1}' } '/v1/completions', '/other/completions', '/off/completions', '/v1/tokenize']
--- error_code eval
[400, 200, 200, 200]
--- response_body_like eval
[::denied('prompt', '', ''), '"count":6']



=== TEST 6: prompts of text and of ids, which are read as what they spell
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny bomb; }
--- request eval
[map { "POST /v1/completions\n" . '{"prompt":' . $_ . ',"max_tokens":1}' }
 '"a bomb"', '["a","a bomb"]', '[98,111,109,98]', '[[97],[32,98,111,109,98]]', '["a",[98,111,109]]', '[255,254,98]', '[255,98,111,109,98]']
--- error_code eval
[400, 400, 400, 400, 200, 200, 400]
--- response_body_like eval
[::denied('prompt', 'prompt[1]', 'prompt', 'prompt[1]', '', '', 'prompt')]



=== TEST 7: parts of a content are lines of a text
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny "bo\nmb"; }
--- request
POST /v1/chat/completions
{"messages":[{"role":"user","content":[{"type":"text","text":"a bo"},{"type":"text","text":"mb"}]}]}
--- error_code: 400
--- response_body_like eval
[::denied(0)]



=== TEST 8: the log says which pattern it was
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny b[o]mb; }
--- request eval
::chat('user: a bomb')
--- error_code: 400
--- response_body_like: The text holds what is not allowed here
--- error_log eval
qr/\[warn\] .* mistral: request "chatcmpl-\w+" refused: its text matches the pattern "b\[o\]mb" of "mistral_prompt_deny"/



=== TEST 9: a long text, in slices
--- http_config
mistral_model null { path null:; context 1000000; }
--- config
location /v1/ { mistral_pass null; client_max_body_size 8m; mistral_prompt_deny "bomb(?=\s)" "[\w.]+@x"; }
--- request eval
my $text = 'The quick brown fox jumps over the lazy dog. ' x 20000;
[::chat("user: $text bomb "), ::chat("user: ${text}bombs"), ::chat("user: " . 'x' x 500000 . 'a@x')]
--- error_code eval
[400, 200, 400]
--- response_body_like eval
[::denied(0, '', 0)]



=== TEST 10: what cannot be decided is refused
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny "(*NO_JIT)(a+)+b?c"; }
--- request eval
[::chat('user: ' . 'a' x 5000 . 'dc'), ::chat('user: hi')]
--- error_code eval
[400, 200]
--- response_body_like eval
['The text cannot be checked', '"choices"']



=== TEST 11: no pattern
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny "a(b"; }
--- must_die
--- error_log
the pattern "a(b" is wrong at byte 3: missing closing parenthesis



=== TEST 12: a pattern that is found in everything
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny "x*"; }
--- must_die
--- error_log
the pattern "x*" is found in the empty text and thus in any



=== TEST 13: an unknown scope
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny x scope=first; }
--- must_die
--- error_log
invalid parameter "scope=first", it must be once "scope=user", "scope=last" or "scope=all"



=== TEST 14: a scope and nothing else
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny scope=all; }
--- must_die
--- error_log
no pattern is given in "mistral_prompt_deny"



=== TEST 15: off and a pattern
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny off; mistral_prompt_deny x; }
--- must_die
--- error_log
"mistral_prompt_deny" directive stands beside "off"


=== TEST 16: all of it: thoughts, calls, results as their JSON reads, tools
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny bomb scope=all; }
location /user/ { mistral_pass null; mistral_prompt_deny bomb; }
--- request eval
[map { my $path = $_; map { "POST $path/chat/completions\n{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},$_],\"max_tokens\":1}" }
 '{"role":"assistant","content":[{"type":"thinking","thinking":"a bomb"},{"type":"text","text":"x"}]},{"role":"user","content":"x"}',
 '{"role":"assistant","content":"x","reasoning_content":"a bomb"},{"role":"user","content":"x"}',
 '{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"bomb","arguments":"{}"}}]},{"role":"user","content":"x"}',
 '{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"a\":\"\\\\u0062omb\"}"}}]},{"role":"user","content":"x"}',
 '{"role":"tool","tool_call_id":"a","content":"{\"a\":\"\\\\u0062omb\"}"}',
 '{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","description":"a bomb"}}],"tool_choice":"auto","stop":["x"' } '/v1', '/user']
--- error_code eval
[400, 400, 400, 400, 400, 400, 200, 200, 200, 200, 200, 400]
--- response_body_like eval
[(map { qr/"param":"$_","code":"content_policy_violation"/ } 'messages\[1\].content', 'messages\[1\].reasoning_content', ('messages\[1\].tool_calls') x 2,
 'messages\[1\].content', 'tools'), ('"choices"') x 5, '"tools","code":"unsupported"']



=== TEST 17: before and behind a middle
--- config
location /v1/ { mistral_pass null; mistral_prompt_deny bomb scope=last; }
--- request eval
[map { "POST /v1/fim/completions\n{$_,\"max_tokens\":1}" } '"prompt":"bomb"', '"prompt":"a","suffix":"bomb"', '"prompt":"a","suffix":"b"']
--- error_code eval
[400, 400, 400]
--- response_body_like eval
['"prompt","code":"content_policy_violation"', '"suffix","code":"content_policy_violation"', 'cannot fill in the middle.*"code":"unsupported"']
