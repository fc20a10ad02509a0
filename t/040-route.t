# mistral_allow_models: what a client may ask for, and what it sees of it.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Body = '{"prompt":"a","max_tokens":1}';

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', ($block->http_config // '') . <<'EOC');
mistral_model one { path null:; context 4096; alias uno gpt-4o; }
mistral_model two { path null:; context 512; alias gpt-4o-mini; }
log_format who '$status $mistral_model $mistral_effective_model;';
EOC
});


# a completion that asks for each of these names ("" for none)

sub ask {
    my ($uri, @names) = @_;

    return [ map { "POST $uri\n" . ($_ eq '' ? $Body
                   : qq({"model":"$_","prompt":"a","max_tokens":1})) }
             @names ];
}

ready_on();
run_tests();

__DATA__

=== TEST 1: the name of a block opens all of its names
--- config
location /v1/ { mistral_pass $mistral_model; mistral_allow_models one; }
--- request eval
main::ask('/v1/completions', qw/ one uno gpt-4o two gpt-4o-mini none /)
--- error_code eval
[200, 200, 200, 404, 404, 404]
--- response_body_like eval
[('"text":"T"') x 3,
 map { "\\A\\{\"error\":\\{\"message\":\"The model \\\\\"$_\\\\\" does not exist.\",\"type\":\"invalid_request_error\",\"param\":\"model\",\"code\":\"model_not_found\"" } qw/ two gpt-4o-mini none /]



=== TEST 2: an alias opens only itself
--- config
location /v1/ { mistral_pass $mistral_model; mistral_allow_models uno two; }
--- request eval
main::ask('/v1/completions', qw/ one uno gpt-4o two gpt-4o-mini /)
--- error_code eval
[404, 200, 404, 200, 200]
--- response_body_like eval
[(".") x 5]



=== TEST 3: expressions, and their "$"
--- config
location /v1/ { mistral_pass $mistral_model; mistral_allow_models ~^gpt-4o$ ~*^UN; }
--- request eval
main::ask('/v1/completions', qw/ one uno gpt-4o two gpt-4o-mini /)
--- error_code eval
[404, 200, 200, 404, 404]
--- response_body_like eval
[(".") x 5]



=== TEST 4: the list of a variable, as a key file or a claim has it
--- config
location /v1/ { mistral_pass $mistral_model; mistral_allow_models $http_x_models; }
--- request eval
[@{main::ask('/v1/completions', qw/ one uno two /)},
 @{main::ask('/v1/completions', qw/ one uno two /)}, @{main::ask('/v1/completions', qw/ one two /)},
 @{main::ask('/v1/completions', qw/ one two /)}]
--- more_headers eval
[("X-Models: zebra,uno two") x 3, ("X-Models: ,, one ,") x 3, ("X-Models: *") x 2, "", "X-Models: "]
--- error_code eval
[404, 200, 200, 200, 200, 404, 200, 200, 404, 404]
--- response_body_like eval
[(".") x 10]



=== TEST 5: a list beside names
--- config
location /v1/ { mistral_pass $mistral_model; mistral_allow_models $http_x_models one; }
--- request eval
main::ask('/v1/completions', qw/ one two /)
--- error_code eval
[200, 404]
--- response_body_like eval
[(".") x 2]



=== TEST 6: /models shows what may be asked for
--- config
location /v1/ { mistral_pass $mistral_model; mistral_allow_models $http_x_models; }
--- request eval
[("GET /v1/models") x 3, "GET /v1/models/two", "GET /v1/models/gpt-4o", "GET /v1/models/one"]
--- more_headers eval
["X-Models: one", "X-Models: uno,gpt-4o-mini", "", ("X-Models: one") x 3]
--- error_code eval
[200, 200, 200, 404, 200, 200]
--- response_body_like eval
['\A\{"object":"list","data":\[\{"id":"one",[^][]*"id":"uno",[^][]*"id":"gpt-4o",(?!.*"id":"two")',
 '\A\{"object":"list","data":\[\{"id":"uno",[^][]*"id":"gpt-4o-mini",(?!.*"id":"one")',
 '\A\{"object":"list","data":\[\]\}', '"code":"model_not_found"', '"id":"gpt-4o"', '"id":"one"']



=== TEST 7: a body without a name asks for the location's model
--- config
location /v1/ { mistral_pass one; mistral_allow_models $http_x_models; }
--- request eval
[($main::Body =~ s/^/POST \/v1\/completions\n/r) x 3]
--- more_headers eval
["X-Models: one", "X-Models: gpt-4o", "X-Models: two"]
--- error_code eval
[200, 200, 404]
--- response_body_like eval
['"model":"one"', '"model":"one"', 'The model ."one." does not exist']



=== TEST 8: where a variable chooses, the name of another block
--- config
location /v1/ {
    mistral_pass          $arg_m;
    mistral_allow_models  one;
}
--- request eval
[@{main::ask('/v1/completions?m=two', 'one', 'uno', 'two', '')}]
--- error_code eval
[200, 200, 404, 404]
--- response_body_like eval
[(".") x 4]
--- response_headers eval
["X-Mistral-Model: two", "X-Mistral-Model: two", "! X-Mistral-Model", "! X-Mistral-Model"]



=== TEST 9: other APIs
--- config
location /v1/ { mistral_pass $mistral_model; mistral_allow_models one; }
--- request eval
["POST /v1/tokenize\n" . '{"model":"two","prompt":"a"}', "POST /v1/tokenize\n" . '{"model":"one","prompt":"a"}',
 "POST /v1/chat/completions\n" . '{"model":"two","messages":[{"role":"user","content":"a"}]}']
--- error_code eval
[404, 200, 404]
--- response_body_like eval
['model_not_found', '"tokens":\[97\]', 'model_not_found']



=== TEST 10: inherited as a whole, replaced as a whole
--- http_config
mistral_allow_models one;
--- config
location /v1/ { mistral_pass $mistral_model; }
location /two/ { mistral_pass $mistral_model; mistral_allow_models two; }
location /all/ { mistral_pass $mistral_model; mistral_allow_models *; }
--- request eval
[map { @{main::ask("/$_/completions", qw/ one two /)} } qw/ v1 two all /]
--- error_code eval
[200, 404, 404, 200, 200, 200]
--- response_body_like eval
[(".") x 6]



=== TEST 11: a name that nobody has
--- config
location /v1/ { mistral_pass one; mistral_allow_models one tow; }
--- must_die
--- error_log
no mistral_model has the name or alias "tow" in



=== TEST 12: a broken expression
--- config
location /v1/ { mistral_pass one; mistral_allow_models ~gpt(; }
--- must_die
--- error_log
in "gpt("



=== TEST 13: an empty one
--- config
location /v1/ { mistral_pass one; mistral_allow_models ~*; }
--- must_die
--- error_log
empty expression "~*"



=== TEST 14: twice
--- config
location /v1/ { mistral_pass one; mistral_allow_models one; mistral_allow_models two; }
--- must_die
--- error_log
"mistral_allow_models" directive is duplicate



=== TEST 15: what does not exist for a client computes nothing in the log
--- config
location /v1/ { mistral_pass $mistral_model; mistral_allow_models one; access_log logs/access.log who; }
location = /metrics { mistral_status prometheus; access_log logs/access.log who; }
--- request eval
[@{ main::ask('/v1/completions', qw/ one two none /) }, 'GET /metrics']
--- error_code eval
[200, 404, 404, 200]
--- response_body_like eval
['"text":"T"', ('does not exist') x 2,
 'mistral_requests_total\{model="",code="404"\} 2\n']
--- response_body_unlike eval
[('"text":"Z"') x 3, 'mistral_requests_total\{model="two"']
--- access_log eval
qr/^(?:200 one one|404 two -|404 none -|200 - -);$/m
--- no_access_log
404 two two;
