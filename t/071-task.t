# System prompts and tasks: mistral_system_prompt, mistral_task.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Null = 'mistral_model null { path null:; context 4096; }';
our $Plain = 'location /plain/ { mistral_pass null; mistral_system_prompt off; }';

add_block_preprocessor(sub {
    my ($block) = @_;
    my $http = $block->http_config // '';

    $block->set_value('http_config', "$Null\n$http") if $http !~ /mistral_model/;
    $block->set_value('config', ($block->config // '') . "\n$Plain");
});

# the null model's chat is "role: content\n" for each message and then
# "assistant: ", so that a text completion shows by its cached tokens (full
# blocks of 16) whether a chat was just this text

our $U = 'u' x 40;
our $User = qq({"role":"user","content":"$U"});

sub chat {
    my ($messages, $more, $path) = @_;

    return 'POST ' . ($path // '/v1') . "/chat/completions\n"
           . qq({"messages":[$messages],"max_tokens":1)
           . (defined $more ? ",$more" : '') . '}';
}

sub system { return qq({"role":"system","content":"$_[0]"}) }

sub text {
    my ($system) = @_;
    my $text = (defined $system ? "system: $system\\n" : '')
               . "user: $U\\nassistant: ";

    return qq(POST /plain/completions\n{"prompt":"$text","max_tokens":1});
}

sub known {
    my ($system) = @_;
    my $n = (defined $system ? 9 + length $system : 0) + 58;

    return qq("prompt_tokens":$n,.*"cached_tokens":) . 16 * int(($n - 1) / 16) . '\}';
}

ready_on();
run_tests();

__DATA__

=== TEST 1: without the client's own
--- config
location /v1/ { mistral_pass null; mistral_system_prompt "Be brief, be kind, be right."; }
--- request eval
[::chat($::User), ::text('Be brief, be kind, be right.')]
--- response_body_like eval
['"prompt_tokens":95,.*"cached_tokens":0\}', ::known('Be brief, be kind, be right.')]



=== TEST 2: in front of it by default
--- config
location /v1/ { mistral_pass null; mistral_system_prompt "Be brief."; }
--- request eval
[::chat(::system('Client.') . ",$::User"), ::text('Be brief.\n\nClient.')]
--- response_body_like eval
['"cached_tokens":0\}', ::known("Be brief.\n\nClient.")]



=== TEST 3: behind it
--- config
location /v1/ { mistral_pass null; mistral_system_prompt "Be brief." append; }
--- request eval
[::chat(::system('Client.') . ",$::User"), ::text('Client.\n\nBe brief.')]
--- response_body_like eval
['"cached_tokens":0\}', ::known("Client.\n\nBe brief.")]



=== TEST 4: in its place
--- config
location /v1/ { mistral_pass null; mistral_system_prompt "Be brief." replace; }
--- request eval
[::chat(::system('Client.') . ",$::User," . ::system('Again.')), ::text('Be brief.')]
--- response_body_like eval
['"cached_tokens":0\}', ::known('Be brief.')]



=== TEST 5: inherited, off, prepend by name; a text completion has none
--- config
mistral_system_prompt "Be brief." prepend;
location /v1/ { mistral_pass null; }
location /off/ { mistral_pass null; mistral_system_prompt off; }
--- request eval
[::chat($::User), ::text('Be brief.'), ::chat($::User, undef, '/off'),
 "POST /v1/completions\n" . '{"prompt":"abc","max_tokens":1}']
--- response_body_like eval
['"cached_tokens":0\}', ::known('Be brief.'), '"prompt_tokens":58,', '"prompt_tokens":3,']



=== TEST 6: a file, with its last line's end taken off
--- config
location /v1/ { mistral_pass null; mistral_system_prompt file:$TEST_NGINX_HTML_DIR/prompt.txt; }
--- user_files
>>> prompt.txt
Be brief.
Cost: $5 at $host.

--- request eval
[::chat($::User), ::text('Be brief.\nCost: $5 at $host.')]
--- response_body_like eval
['"cached_tokens":0\}', ::known("Be brief.\nCost: \$5 at \$host.")]



=== TEST 7: variables, nothing where they are empty, made UTF-8
--- config
location /v1/ { mistral_pass null; mistral_system_prompt $http_x_who; }
--- request eval
[::chat($::User), ::text('Sam'), ::chat($::User), ::chat($::User), ::text('a\ufffdb')]
--- more_headers eval
["X-Who: Sam", "", "", "X-Who: a\xffb", ""]
--- response_body_like eval
['"prompt_tokens":70,', ::known('Sam'), '"prompt_tokens":58,', '"prompt_tokens":72,', ::known("axxxb")]



=== TEST 8: control tokens are text in a system prompt, too
--- http_config eval
'mistral_model null { path null:; } mistral_model smollm { context 512; path ' . ::build() . '/models/SmolLM2-135M-Instruct.Q4_1.gguf; }'
--- config eval
'location /v1/ { mistral_pass smollm; mistral_system_prompt "' . '<|im_end|>' x 4 . '"; } location /own/ { mistral_pass smollm; }'
--- request eval
[::chat('{"role":"user","content":"hi"}'), ::chat(::system('<|im_end|>' x 4) . ',{"role":"user","content":"hi"}', undef, '/own')]
--- response_body_like eval
['"prompt_tokens":(?:3[5-9]|4\d),.*"cached_tokens":0\}', '"prompt_tokens":(?:3[5-9]|4\d),.*"cached_tokens":32\}']
--- timeout: 60



=== TEST 9: a task by field, by the system prompt, by a variable
--- http_config
mistral_task sum { system_prompt "Sum it up."; max_tokens 7; temperature 0; }
mistral_task plain { max_new_tokens 2; hard_max_new_tokens 9; }
--- config
location /v1/ { mistral_pass null; mistral_task $http_x_task; add_header X-Task $mistral_task; }
--- request eval
[(map { "POST /v1/chat/completions\n{\"messages\":[$_" }
  "$::User],\"task\":\"sum\"}", ::system('task: sum') . ",$::User]}", "$::User]}",
  ::system('task: sum\nClient.') . ",$::User]}", ::system('task: sum') . ",$::User],\"task\":\"plain\"}",
  "$::User],\"task\":\"sum\",\"max_tokens\":3}"),
 "POST /v1/completions\n" . '{"prompt":"hi","task":"plain"}']
--- more_headers eval
['', '', 'X-Task: sum', '', '', '', '']
--- response_headers eval
[('X-Task: sum') x 4, 'X-Task: plain', 'X-Task: sum', 'X-Task: plain']
--- response_body_like eval
['"prompt_tokens":77,"completion_tokens":7,', '"prompt_tokens":77,"completion_tokens":7,', '"prompt_tokens":77,"completion_tokens":7,',
 '"prompt_tokens":86,"completion_tokens":7,', '"prompt_tokens":76,"completion_tokens":9,', '"completion_tokens":3,', '"completion_tokens":9,']



=== TEST 10: the variable wins, and no name in it leaves it to the request
--- http_config
mistral_task a { max_tokens 2; }
mistral_task b { max_tokens 3; }
map $http_x_task $task { default ""; a a; gone gone; }
--- config
location /v1/ { mistral_pass null; mistral_task $task; }
location /b/ { mistral_pass null; mistral_task b; }
--- request eval
[map { "POST $_/completions\n" . '{"prompt":"hi","task":"b"}' } '/v1', '/v1', '/v1', '/b']
--- more_headers eval
['X-Task: a', 'X-Task: x', 'X-Task: gone', 'X-Task: a']
--- error_code eval
[200, 200, 400, 200]
--- response_body_like eval
['"completion_tokens":2,', '"completion_tokens":3,', 'The task \\\\"gone\\\\" does not exist.*"param":"task","code":"task_not_found"', '"completion_tokens":3,']



=== TEST 11: unknown tasks, and none at all
--- http_config
mistral_task sum { }
--- config
location /v1/ { mistral_pass null; }
--- request eval
[::chat($::User, '"task":"sun"'), ::chat($::User, '"task":""'), ::chat($::User, '"task":5'), ::chat($::User, '"task":null'),
 ::chat(::system('task: sun') . ",$::User"), ::chat(::system('task: sun is up') . ",$::User"), ::chat(::system('task: sum'))]
--- error_code eval
[400, 400, 400, 200, 400, 200, 400]
--- response_body_like eval
['"param":"task","code":"task_not_found"', '"param":"task","code":"invalid_value"', '"param":"task","code":"invalid_type"', 'choices',
 '"param":"messages\[0\].content","code":"task_not_found"', '"prompt_tokens":82,', 'nothing but.*"param":"messages","code":"invalid_value"']



=== TEST 12: without tasks the line is text, and the field asks for what is not there
--- config
location /v1/ { mistral_pass null; }
--- request eval
[::chat(::system('task: sum') . ",$::User"), ::chat($::User, '"task":"sum"')]
--- error_code eval
[200, 400]
--- response_body_like eval
['"prompt_tokens":76,', '"param":"task","code":"task_not_found"']



=== TEST 13: the location's prompt around the task's
--- http_config
mistral_task in { system_prompt "Task."; }
mistral_task out { system_prompt "Task." append; }
mistral_task alone { system_prompt "Task." replace; }
mistral_task words { system_prompt $http_x_words; }
--- config
mistral_system_prompt "House.";
location /v1/ { mistral_pass null; }
--- request eval
[::chat(::system('Client.') . ",$::User", '"task":"in"'), ::text('House.\n\nTask.\n\nClient.'),
 ::chat(::system('Client.') . ",$::User", '"task":"out"'), ::text('House.\n\nClient.\n\nTask.'),
 ::chat(::system('Client.') . ",$::User", '"task":"alone"'), ::text('House.\n\nTask.'),
 ::chat(::system('Client.') . ",$::User", '"task":"words"'), ::text('House.\n\nClient.')]
--- response_body_like eval
['choices', ::known("House.\n\nTask.\n\nClient."), 'choices', ::known("House.\n\nClient.\n\nTask."),
 'choices', ::known("House.\n\nTask."), 'choices', ::known("House.\n\nClient.")]



=== TEST 14: a level adds its tasks to those above and replaces one
--- http_config
mistral_task a { max_tokens 2; }
mistral_task b { max_tokens 3; }
server {
    listen unix:$TEST_NGINX_HTML_DIR/socket;
    mistral_task b { max_tokens 5; }
    mistral_task c { max_tokens 6; }
    location /v1/ { mistral_pass null; }
}
--- config
location /in/ { proxy_pass http://unix:$TEST_NGINX_HTML_DIR/socket:/v1/; }
location /v1/ { mistral_pass null; }
--- request eval
[map { my $p = $_; map { "POST $p/completions\n" . '{"prompt":"hi","task":"' . $_ . '"}' } qw/ a b c / } '/in', '/v1']
--- error_code eval
[(200) x 5, 400]
--- response_body_like eval
['"completion_tokens":2,', '"completion_tokens":5,', '"completion_tokens":6,', '"completion_tokens":2,', '"completion_tokens":3,', 'task_not_found']



=== TEST 15: before the location's default, below its limit
--- http_config
mistral_task long { max_tokens 50; }
mistral_task open { temperature 0; }
--- config
location /v1/ { mistral_pass null; mistral_default_max_tokens 5; mistral_max_tokens 20; }
--- request eval
[map { "POST /v1/completions\n" . '{"prompt":"hi","task":"' . $_ . '"}' } qw/ long open /]
--- response_body_like eval
['"completion_tokens":20,', '"completion_tokens":5,']



=== TEST 16: sampling: stop strings, one answer for many where nothing is random
--- http_config
mistral_task t { stop quick brown; temperature 0; include $TEST_NGINX_HTML_DIR/more.conf; }
--- config
location /v1/ { mistral_pass null; }
location = /status { mistral_status json; }
--- user_files
>>> more.conf
max_tokens 40; top_p 0.5; top_k 3; min_p 0.1; seed 7; frequency_penalty 0.1; presence_penalty 0.1; repetition_penalty 1.1;
--- request eval
[::chat($::User, '"task":"t","n":2,"max_tokens":30'), ::chat($::User, '"task":"t","stop":"T","max_tokens":30'), 'GET /status']
--- response_body_like eval
['("content":"The ".*"finish_reason":"stop".*){2}', '"content":"".*"finish_reason":"stop"', '"finished":2,']



=== TEST 17: a task with a system prompt is a chat's
--- http_config
mistral_task t { system_prompt x; }
--- config
location /v1/ { mistral_pass null; }
--- request
POST /v1/completions
{"prompt":"hi","task":"t"}
--- error_code: 400
--- response_body_like: "param":"task","code":"unsupported"



=== TEST 18: the log knows the task, after an error_page too
--- http_config
mistral_task t { max_tokens 3; }
log_format task '$status task=$mistral_task;';
--- config
location /v1/ { mistral_pass null; mistral_max_tokens $http_x_max; error_page 500 = @else; access_log logs/access.log task; }
location @else { access_log logs/access.log task; return 200 else; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"hi","task":"t"}']
--- more_headers
X-Max: x
--- response_body_like: else
--- access_log
200 task=t;



=== TEST 19: safe_prompt stands in front of the client's text
--- config
location /v1/ { mistral_pass null; mistral_system_prompt "House." replace; }
--- request eval
[::chat(::system('Client.') . ",$::User", '"safe_prompt":true')]
--- response_body_like eval
['"prompt_tokens":' . (58 + 9 + 6 + 2 + 193) . ',']



=== TEST 20: /tokenize shows the client's text alone
--- http_config
mistral_task t { system_prompt x; }
--- config
location /v1/ { mistral_pass null; mistral_system_prompt "Be brief."; }
--- request eval
["POST /v1/tokenize\n" . '{"messages":[{"role":"user","content":"hi"}],"task":"t"}']
--- response_body_like: "count":20,



=== TEST 21: a fixed prompt outlives what others said
--- http_config
mistral_model null { path null:; context 512; max_batch 1; }
mistral_task t { system_prompt "And this is another forty-one bytes of it."; }
--- config eval
'location /v1/ { mistral_pass null; mistral_system_prompt "' . 'h' x 40 . '"; }'
--- request eval
my @flood = map { "POST /plain/completions\n" . '{"prompt":"' . $_ x 350 . '","max_tokens":1}' } qw/ a b c /;
[::chat('{"role":"user","content":"one"}', '"task":"t"'), ::chat(::system('z' x 80) . ',{"role":"user","content":"one"}', undef, '/plain'), @flood,
 ::chat('{"role":"user","content":"two"}', '"task":"t"'), ::chat(::system('z' x 80) . ',{"role":"user","content":"two"}', undef, '/plain'), @flood,
 ::chat('{"role":"user","content":"six"}', '"task":"t"')]
--- response_body_like eval
['"cached_tokens":0\}', '"cached_tokens":0\}', ('"prompt_tokens":350,') x 3, '"cached_tokens":80\}', '"cached_tokens":0\}', ('"prompt_tokens":350,') x 3, '"cached_tokens":80\}']



=== TEST 22: one with variables does not
--- http_config
mistral_model null { path null:; context 512; max_batch 1; }
--- config eval
'location /v1/ { mistral_pass null; mistral_system_prompt "' . 'h' x 80 . '$http_x_end"; }'
--- request eval
my @flood = map { "POST /plain/completions\n" . '{"prompt":"' . $_ x 350 . '","max_tokens":1}' } qw/ a b c /;
[::chat('{"role":"user","content":"one"}'), @flood, ::chat('{"role":"user","content":"two"}')]
--- response_body_like eval
['"cached_tokens":0\}', ('"prompt_tokens":350,') x 3, '"cached_tokens":0\}']



=== TEST 23: an unknown setting
--- http_config
mistral_task t { temprature 1; }
--- must_die
--- error_log
unknown directive "temprature" in mistral_task "t"



=== TEST 24: a value out of its range
--- http_config
mistral_task t { temperature 3; }
--- must_die
--- error_log
mistral_task "t": temperature is 3, must be a number from 0 to 2



=== TEST 25: a setting twice
--- http_config
mistral_task t { top_p 1; top_p 1; }
--- must_die
--- error_log
mistral_task "t": top_p is duplicate



=== TEST 26: two prompts
--- http_config
mistral_task t { system_prompt a; system_prompt b; }
--- must_die
--- error_log
"system_prompt" directive is duplicate



=== TEST 27: one name twice
--- http_config
mistral_task t { } mistral_task t { }
--- must_die
--- error_log
duplicate mistral_task name "t"



=== TEST 28: no name
--- http_config
mistral_task "a b" { }
--- must_die
--- error_log
invalid task name "a b", it must be 1 to 64 letters, digits, ".", "_" or "-"



=== TEST 29: a location that names a task that is not there
--- config
location /v1/ { mistral_pass null; mistral_task gone; }
--- must_die
--- error_log
unknown mistral_task "gone" in



=== TEST 30: an empty text
--- config
location /v1/ { mistral_pass null; mistral_system_prompt ""; }
--- must_die
--- error_log
a system prompt is empty, it must be UTF-8 text



=== TEST 31: where it goes
--- config
location /v1/ { mistral_pass null; mistral_system_prompt x before; }
--- must_die
--- error_log
invalid parameter "before", it must be "prepend", "append" or "replace"



=== TEST 32: a file that is not there
--- config
location /v1/ { mistral_pass null; mistral_system_prompt file:gone.txt; }
--- must_die
--- error_log
conf/gone.txt" failed (2: No such file or directory)



=== TEST 33: a file that is none
--- config
location /v1/ { mistral_pass null; mistral_system_prompt file:/dev/null; }
--- must_die
--- error_log
"/dev/null" must be a file of at most 1048576 bytes



=== TEST 34: a file that is no text
--- config
location /v1/ { mistral_pass null; mistral_system_prompt file:$TEST_NGINX_HTML_DIR/latin1; }
--- user_files eval
">>> latin1\ncaf\xe9\n"
--- must_die
--- error_log
latin1" is no UTF-8, it must be UTF-8 text
