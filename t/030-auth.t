# API keys: who may ask, and who it is.

use Test::Nginx::Socket 'no_plan';
use MistralTest;
use MistralJwt;

master_on();
no_long_string();

our $Keys = "# three keys, two of one name\n\n"
            . line('alice', 'sk-alice', 'gold', 'null,other', '100k')
            . line('alice', 'sk-alice-2')
            . line('bob@example.com', 'sk-bob', '', 'null');

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', ($block->http_config // '') . <<'EOC');

mistral_model null { path null:; context 4096; }
EOC
    $block->set_value('config', <<'EOC') if !defined $block->config;
location /v1/ {
    mistral_auth_key       "models";
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
    add_header X-Consumer "$mistral_consumer|$mistral_consumer_tier|$mistral_consumer_models|$mistral_consumer_quota" always;
}
EOC

    my $files = $block->user_files;
    $block->set_value('user_files', [['keys', $Keys],
                                     ref $files ? @$files : ()]);
});

our $Ask = "POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}';

ready_on();
run_tests();

__DATA__

=== TEST 1: a key in either header, its owner's fields
--- request eval
[($::Ask) x 5]
--- more_headers eval
["Authorization: Bearer sk-alice", "x-api-key: sk-bob",
 "Authorization: bearer   sk-alice-2",
 "Authorization: Bearer sk-bob\nx-api-key: sk-alice",
 "Authorization: Basic bWU6c2VjcmV0\nX-Api-Key: sk-alice"]
--- response_headers eval
["X-Consumer: alice|gold|null,other|100k", 'X-Consumer: bob@example.com||null|',
 "X-Consumer: alice|||", 'X-Consumer: bob@example.com||null|',
 "X-Consumer: alice|gold|null,other|100k"]
--- response_body_like eval
[('"text":"T"') x 5]



=== TEST 2: no key, or nobody's
--- request eval
[($::Ask) x 8]
--- more_headers eval
["", "Authorization: Bearer sk-eve", "x-api-key: sk-alic", "Authorization: Bearer",
 "Authorization: Bearer ", "Authorization: sk-alice", "Authorization: Bearer sk-alice x",
 "Authorization: Bearer sk-eve\nx-api-key: sk-alice"]
--- error_code eval
[(401) x 8]
--- response_headers eval
[("WWW-Authenticate: Bearer realm=\"models\"\nX-Consumer: |||") x 8]
--- response_body_like eval
[qr/\A\{"error":\{"message":"An API key or a token is needed: Authorization: Bearer \.\.\.","type":"authentication_error","param":null,"code":"missing_credentials"}}\n\z/,
 qr/\A\{"error":\{"message":"The API key is not valid.","type":"authentication_error","param":null,"code":"invalid_api_key"}}\n\z/,
 'invalid_api_key', 'missing_credentials', 'missing_credentials', 'missing_credentials',
 'invalid_api_key', 'invalid_api_key']



=== TEST 3: the digest is no key
--- request eval
[($::Ask) x 2]
--- more_headers eval
[$::Keys =~ /(\{SHA256\}\w+)/ ? "Authorization: Bearer $1" : '',
 $::Keys =~ /\{SHA256\}(\w+)/ ? "x-api-key: $1" : '']
--- error_code eval
[401, 401]



=== TEST 4: another place for the key, and only that
--- config
location /v1/ {
    mistral_auth_key       models key=$http_api_key$arg_key;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
--- request eval
[$::Ask, $::Ask, $::Ask =~ s/completions/completions?key=sk-bob/r]
--- more_headers eval
["Api-Key: sk-alice", "Authorization: Bearer sk-alice", ""]
--- error_code eval
[200, 401, 200]



=== TEST 5: a location without the API: the same 401
--- config
mistral_auth_key       "a \"quoted\" \\ realm";
mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
location /v1/ { mistral_pass null; }
location = /status { mistral_status json; }
location = /index.html { root $TEST_NGINX_HTML_DIR; }
location = /open { mistral_auth_key off; return 200 "open\n"; }
--- request eval
["GET /status", "GET /index.html", "GET /open", "GET /index.html"]
--- no_ready
--- more_headers eval
["", "", "", "Authorization: Bearer sk-bob"]
--- error_code eval
[401, 401, 200, 200]
--- response_headers eval
['WWW-Authenticate: Bearer realm="a \"quoted\" \\\\ realm"',
 "Content-Type: application/json", "WWW-Authenticate:", "WWW-Authenticate:"]
--- response_body_like eval
['missing_credentials', 'missing_credentials', 'open', 'It works']



=== TEST 6: satisfy any, with auth_basic
--- config
location /v1/ {
    satisfy                any;
    auth_basic             "people";
    auth_basic_user_file   $TEST_NGINX_HTML_DIR/users;
    mistral_auth_key       "models";
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
    add_header             X-Consumer "$mistral_consumer" always;
}
--- user_files eval
[['users', "me:{PLAIN}secret\n"]]
--- request eval
[($::Ask) x 5]
--- more_headers eval
["Authorization: Basic bWU6c2VjcmV0", "x-api-key: sk-alice",
 "Authorization: Basic bWU6ZmFsc2U=", "Authorization: Bearer sk-eve", ""]
--- error_code eval
[200, 200, 401, 401, 401]
--- raw_response_headers_like eval
['(?s)\A(?!.*WWW-Authenticate)', '(?s)\A(?!.*WWW-Authenticate).*X-Consumer: alice',
 ('(?s)(?=.*WWW-Authenticate: Bearer realm="models"\r\n)(?=.*WWW-Authenticate: Basic realm="people"\r\n)') x 3]
--- response_body_like eval
['"text":"T"', '"text":"T"', '"code":"missing_credentials"', '"code":"invalid_api_key"',
 '"code":"missing_credentials"']



=== TEST 7: satisfy any, with addresses; satisfy all
--- config
location /v1/any {
    satisfy  any;
    allow    127.0.0.1;
    deny     all;
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    rewrite  any(.*) /v1/any/completions break;
    mistral_pass null;
}
location /v1/none {
    satisfy  any;
    deny     all;
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass null;
}
location /v1/all {
    deny     all;
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass null;
}
--- request eval
[map { $::Ask =~ s{/v1}{/v1/$_}r } 'any', 'none', 'none', 'all', 'all']
--- more_headers eval
["", "", "x-api-key: sk-bob", "x-api-key: sk-bob", ""]
--- error_code eval
[200, 401, 200, 403, 401]
--- response_body_like eval
['"T"', '"missing_credentials"', '"T"', '"code":"forbidden"', '"missing_credentials"']



=== TEST 8: limit_req counts verified names before ACCESS
--- http_config
limit_req_zone $mistral_consumer zone=z:1m rate=1r/m;
--- config
location /v1/ {
    limit_req              zone=z;
    limit_req_status       429;
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
--- request eval
[($::Ask) x 7]
--- more_headers eval
["x-api-key: sk-alice", "x-api-key: sk-alice", "Authorization: Bearer sk-alice-2",
 "x-api-key: sk-bob", "x-api-key: sk-eve", "x-api-key: sk-eve", ""]
--- error_code eval
[200, 429, 429, 200, 401, 401, 401]



=== TEST 9: a header is no name: nobody can speak for another
--- http_config
limit_req_zone $mistral_consumer zone=z:1m rate=1r/m;
--- config
location /v1/ {
    limit_req              zone=z;
    limit_req_status       429;
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
    add_header             X-Consumer "$mistral_consumer" always;
}
--- request eval
[map { $::Ask =~ s/completions/completions?mistral_consumer=alice/r } 1 .. 3]
--- more_headers eval
["mistral_consumer: alice\nX-Consumer: alice\nx-api-key: alice",
 "x-api-key: sk-bob\nX-Consumer: alice", "x-api-key: sk-alice"]
--- error_code eval
[401, 200, 200]
--- response_headers eval
["X-Consumer: ", 'X-Consumer: bob@example.com', "X-Consumer: alice"]



=== TEST 10: mistral_consumer
--- http_config
map $mistral_consumer_tier $team { gold first; default second; }
--- config
mistral_consumer "$team/$mistral_consumer_tier";
location /v1/ {
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
    add_header             X-Consumer "$mistral_consumer" always;
}
location /own/ {
    auth_basic             "people";
    auth_basic_user_file   $TEST_NGINX_HTML_DIR/users;
    mistral_consumer       $remote_user;
    mistral_pass           null;
    add_header             X-Consumer "$mistral_consumer" always;
}
--- user_files eval
[['users', "me:{PLAIN}secret\n"]]
--- request eval
[$::Ask, $::Ask, $::Ask, $::Ask =~ s/v1/own/r]
--- more_headers eval
["x-api-key: sk-alice", "x-api-key: sk-bob", "", "Authorization: Basic bWU6c2VjcmV0"]
--- error_code eval
[200, 200, 401, 200]
--- response_headers eval
["X-Consumer: first/gold", "X-Consumer: second/", "X-Consumer: ", "X-Consumer: me"]



=== TEST 11: in the log, after a redirect too
--- http_config
log_format who '<$mistral_consumer $status>';
access_log logs/access.log who;
--- config
error_page 404 = @elsewhere;
location /v1/ {
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
location @elsewhere { return 200 "else $mistral_consumer\n"; }
--- request eval
["POST /v1/completions\n" . '{"prompt":"a","model":"x"}', $::Ask]
--- more_headers eval
[("x-api-key: sk-alice") x 2]
--- error_code eval
[200, 200]
--- response_body_like eval
['\Aelse alice\n\z', '"T"']
--- access_log
<alice 200>



=== TEST 12: nobody in the log
--- http_config
log_format who '<$mistral_consumer $status>';
access_log logs/access.log who;
--- request eval
$::Ask
--- more_headers
x-api-key: sk-eve
--- error_code: 401
--- access_log
<- 401>



=== TEST 13: error_page
--- config
location /v1/ {
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
    error_page 401 /login;
}
location /other/ {
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
    error_page 401 =200 @login;
}
location = /login { return 401 "who are you?\n"; }
location @login { return 200 "who are you?\n"; }
--- request eval
[$::Ask, $::Ask =~ s/v1/other/r]
--- error_code eval
[401, 200]
--- response_headers eval
['WWW-Authenticate: Bearer realm="models"', 'WWW-Authenticate:']
--- response_body eval
["who are you?\n", "who are you?\n"]



=== TEST 14: a preflight has no key: the configuration lets it pass
--- config
location /v1/ {
    if ($request_method = OPTIONS) { return 204; }
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
location /except/ {
    limit_except GET OPTIONS {
        mistral_auth_key       models;
        mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    }
    mistral_pass           null;
}
--- request eval
["OPTIONS /v1/completions", "OPTIONS /except/completions", "GET /except/models",
 $::Ask =~ s/v1/except/r, $::Ask =~ s/v1/except/r]
--- more_headers eval
["", "", "", "", "x-api-key: sk-bob"]
--- error_code eval
[204, 204, 200, 401, 200]



=== TEST 15: a realm with variables
--- config
location /v1/ {
    mistral_auth_key       "for $http_x_name";
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
--- request eval
$::Ask
--- more_headers
X-Name: a"b
--- error_code: 401
--- response_headers
WWW-Authenticate: Bearer realm="for a\"b"



=== TEST 16: a file that is damaged
--- config
location /v1/ {
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/bad;
    mistral_pass           null;
}
--- user_files eval
[['bad', "# keys\n" . ::line('a', 'b') . "c:secret\n"]]
--- must_die
--- error_log
bad" line 3: the second field is not {SHA256} and 64 hex digits in
nginx.conf:



=== TEST 17: a file that is not there
--- config
location /v1/ {
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/none;
    mistral_pass           null;
}
--- must_die
--- error_log
none" cannot be opened: No such file or directory in
nginx.conf:



=== TEST 18: no file is named
--- config
location /v1/ { mistral_auth_key models; mistral_pass null; }
--- must_die
--- error_log
"mistral_auth_key" needs a "mistral_auth_key_file" in



=== TEST 19: a folder is no file, another parameter
--- config
location /v1/ {
    mistral_auth_key       models;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR;
    mistral_pass           null;
}
--- must_die
--- error_log
is no regular file



=== TEST 20: another parameter
--- config
location /v1/ {
    mistral_auth_key       models header=x;
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
--- must_die
--- error_log
invalid parameter "header=x"



=== TEST 21: relative to the folder of the configuration
--- config
location /v1/ {
    mistral_auth_key       models;
    mistral_auth_key_file  ../html/keys;
    mistral_pass           null;
}
--- request eval
$::Ask
--- more_headers
x-api-key: sk-bob
--- response_body_like: "text":"T"



=== TEST 22: off is no realm
--- config
location /v1/ { mistral_auth_key off key=$http_api_key; mistral_pass null; }
--- must_die
--- error_log
"mistral_auth_key" directive takes nothing behind "off"



=== TEST 23: twice
--- config
location /v1/ { mistral_auth_key a; mistral_auth_key b; mistral_pass null; }
--- must_die
--- error_log
"mistral_auth_key" directive is duplicate



=== TEST 24: a file that nobody uses
--- config
location /v1/ {
    mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
    mistral_pass           null;
}
--- request eval
$::Ask
--- response_body_like: "text":"T"
--- error_log
"mistral_auth_key_file" protects nothing without "mistral_auth_key" in



=== TEST 25: one file for all, used by some
--- http_config
mistral_auth_key_file  $TEST_NGINX_HTML_DIR/keys;
--- config
location /v1/ { mistral_pass null; }
location /in/ { mistral_auth_key models; mistral_pass null; }
--- request eval
$::Ask
--- response_body_like: "text":"T"
--- no_error_log
protects nothing
