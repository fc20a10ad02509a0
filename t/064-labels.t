# mistral_metrics_labels: counters by consumer and tag, bounded and escaped.

use Test::Nginx::Socket 'no_plan';
use MistralTest;

master_on();
no_long_string();

our $Http = <<'EOC';
mistral_model null { path null:; context 4096; }
EOC

our $Config = <<'EOC';
location /v1/ {
    mistral_consumer  $arg_who;
    mistral_tag       team $arg_team;
    mistral_pass      null;
}
location /some/ {
    mistral_consumer  $arg_who;
    mistral_tag       team $arg_team;
    mistral_pass      $mistral_model;
}
location = /metrics { mistral_status prometheus; }
EOC

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', $Http . ($block->http_config // ''));
    $block->set_value('config', $Config) if !defined $block->config;
});

sub ask { return "POST /v1/completions?$_[0]\n" . '{"prompt":"0123456789","max_tokens":' . ($_[1] // 1) . '}' }

ready_on();
run_tests();

__DATA__

=== TEST 1: without labels there are none
--- request eval
[main::ask('who=alice&team=red'), "GET /metrics"]
--- response_body_like eval
["T", '\A(?!.*(mistral_usage_|alice))']



=== TEST 2: consumer and tag
--- http_config
mistral_metrics_labels model tag:team consumer;
--- request eval
[main::ask('who=alice&team=red', 5), main::ask('who=alice&team=red', 7), main::ask('who=bob', 1),
 "POST /v1/completions?who=bob\n{", "GET /metrics"]
--- error_code eval
[200, 200, 200, 400, 200]
--- response_body_like eval
["T", "T", "T", "error",
 '# TYPE mistral_usage_requests_total counter\n(?=.*mistral_usage_requests_total\{model="null",tag_team="red",consumer="alice",code="200"\} 2\n)(?=.*mistral_usage_requests_total\{model="null",tag_team="",consumer="bob",code="400"\} 1\n)(?=.*mistral_usage_prompt_tokens_total\{model="null",tag_team="red",consumer="alice"\} 20\n)(?=.*mistral_usage_completion_tokens_total\{model="null",tag_team="red",consumer="alice"\} 12\n)(?=.*mistral_usage_completion_tokens_total\{model="null",tag_team="",consumer="bob"\} 1\n)(?=.*mistral_usage_wasted_tokens_total\{model="null",tag_team="red",consumer="alice"\} 0\n)(?=.*mistral_usage_cached_tokens_total\{model="null",tag_team="red",consumer="alice"\} 0\n)']



=== TEST 3: no more than so many, the rest together
--- http_config
mistral_metrics_labels model consumer;
mistral_metrics_max_series 2;
--- request eval
[(map { main::ask("who=$_", 2) } qw/ a b c d a b c /), "GET /metrics"]
--- response_body_like eval
[('T') x 7,
 '\A(?!.*consumer="[cd]")(?=.*usage_requests_total\{model="null",consumer="a",code="200"\} 2\n)(?=.*usage_requests_total\{model="null",consumer="b",code="200"\} 2\n)(?=.*usage_requests_total\{model="null",consumer="_overflow",code="200"\} 3\n)(?=.*usage_completion_tokens_total\{model="null",consumer="_overflow"\} 6\n)']



=== TEST 4: hostile values
--- http_config
mistral_metrics_labels model consumer;
map $args $unescaped {
    q           'a"b\c';
    control     "a
b	c";
    utf         "é😀";
    broken      "é\xff";
    default     $args;
}
--- config
location /v1/ {
    mistral_consumer  $unescaped;
    mistral_pass      null;
}
location = /metrics { mistral_status prometheus; }
--- request eval
[(map { main::ask($_) } 'q', 'control', 'utf', "raw\xff\xfe\xc3", "sur\xed\xa0\x80", "long" . 'x' x 100, 'cut' . 'x' x 60 . "\xc3\xa9"),
 "GET /metrics"]
--- response_body_like eval
[('T') x 7,
 '\A(?=.*consumer="a\\\\"b\\\\\\\\c",code)(?=.*consumer="a\?b\?c",code)(?=.*consumer="é😀",code)(?=.*consumer="raw\?\?\?",code)(?=.*consumer="sur\?\?\?",code)(?=.*consumer="longx{60}",code)(?=.*consumer="cutx{60}",code)']



=== TEST 5: a client cannot make a model, and cannot take _overflow away
--- http_config
mistral_metrics_labels model consumer;
mistral_metrics_max_series 1;
--- request eval
["POST /some/completions?who=_overflow\n" . '{"model":"zebra","prompt":"a"}', main::ask("who=a"), main::ask("who=b"), "GET /metrics"]
--- error_code eval
[404, 200, 200, 200]
--- response_body_like eval
['model_not_found', 'T', 'T',
 '\A(?!.*zebra)(?=.*usage_requests_total\{model="",consumer="_overflow",code="404"\} 1\n)(?=.*usage_requests_total\{model="null",consumer="_overflow",code="200"\} 2\n)(?!.*consumer="a")']



=== TEST 6: many statuses of one
--- http_config
mistral_metrics_labels model consumer;
--- config eval
(CORE::join '', map { "location = /s$_ { mistral_consumer a; mistral_pass null; return $_; }\n" } 401 .. 404, 406, 409 .. 413)
. 'location = /metrics { mistral_status prometheus; }'
--- request eval
[(map { "GET /s$_" } 401 .. 404, 406, 409 .. 413), "GET /metrics"]
--- error_code eval
[401 .. 404, 406, 409 .. 413, 200]
--- response_body_like eval
[('.') x 10, '(?=.*consumer="a",code="401"\} 1\n)(?=.*consumer="a",code="410"\} 1\n)(?=.*consumer="a",code="other"\} 3\n)']



=== TEST 7: what is no label
--- http_config
mistral_metrics_labels model zebra;
--- must_die
--- error_log
invalid label "zebra", it must be "consumer" or "tag:NAME"



=== TEST 8: a tag that nobody sets
--- http_config
mistral_metrics_labels model tag:zebra;
--- must_die
--- error_log
"mistral_metrics_labels": no "mistral_tag" has the name "zebra"



=== TEST 9: the model comes first
--- http_config
mistral_metrics_labels consumer;
--- must_die
--- error_log
the first label must be "model", not "consumer"



=== TEST 10: twice
--- http_config
mistral_metrics_labels model tag:team tag:team;
--- must_die
--- error_log
duplicate label "tag:team"



=== TEST 11: numbers
--- http_config
mistral_metrics_max_series 0;
--- must_die
--- error_log
"mistral_metrics_max_series" must be from 1 to 100000
