# Signed tokens: which are believed, and which must never be.

use Test::Nginx::Socket 'no_plan';
use MistralTest;
use MistralJwt;

master_on();
no_long_string();

# what a provider has: keys of each kind, one being rotated out, one for
# something else

key('rsa', 'RSA');
key('old', 'RSA');
key('ec', 'P-256');
key('ec384', 'P-384');
key('ec521', 'P-521');
key('ed', 'Ed25519');
key('secret', 'oct');
key('eve', 'RSA');
key('weak', 'RSA1024');

our $Dir = keys_dir();
our $Soon = time + 3600;

spew("$Dir/jwks.json",
     jwks(jwk('rsa', kid => 'new', use => 'sig'),
          jwk('old', kid => 'old', alg => 'PS256'),
          jwk('ec', kid => 'ec'), jwk('ec384', kid => 'ec384', alg => 'ES384'),
          jwk('ec521', kid => 'ec521'), jwk('ed', kid => 'ed'),
          jwk('eve', use => 'enc', alg => 'RSA-OAEP'),
          jwk('secret', kid => 'hs', alg => 'HS256')));
spew("$Dir/both.pem", pem('rsa'), pem('ec'));
spew("$Dir/weak.json", jwks(jwk('weak')));
spew("$Dir/secret.json", jwks(jwk('secret', alg => 'HS256')));

our %Me = (sub => 'me', exp => $Soon);


# headers with a token each

sub bearer {
    return [map { "Authorization: Bearer $_" } @_];
}

# requests, as many

sub ask {
    return [("POST /v1/completions\n" . '{"prompt":"a","max_tokens":1}')
            x $_[0]];
}

add_block_preprocessor(sub {
    my ($block) = @_;

    $block->set_value('http_config', ($block->http_config // '') . <<'EOC');

mistral_model null { path null:; context 4096; }
EOC
    $block->set_value('config', <<'EOC') if !defined $block->config;
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
    add_header X-Consumer "$mistral_consumer" always;
}
EOC
});

certificate();
ready_on();
run_tests();

__DATA__

=== TEST 1: each algorithm, by kid and without
--- request eval
::ask(8)
--- more_headers eval
::bearer(::token('rsa', 'RS256', \%::Me, { kid => 'new' }),
         ::token('rsa', 'RS256', \%::Me), ::token('old', 'PS256', \%::Me, { kid => 'old' }),
         ::token('ec', 'ES256', \%::Me, { kid => 'ec' }),
         ::token('ec384', 'ES384', \%::Me), ::token('ec521', 'ES512', \%::Me),
         ::token('ed', 'EdDSA', \%::Me), ::token('ed', 'EdDSA', \%::Me, { kid => 'ed' }))
--- response_headers eval
[("X-Consumer: me") x 8]
--- response_body_like eval
[('"text":"T"') x 8]



=== TEST 2: none in any case, with a signature and without
--- request eval
::ask(10)
--- more_headers eval
::bearer((map { ::token('rsa', 'RS256', \%::Me, { alg => $_, kid => 'new' }) }
          'none', 'None', 'NONE', 'nOnE', ''),
         (map { ::token('rsa', 'RS256', \%::Me, { alg => $_ }) =~ s/[^.]*\z//r }
          'none', 'None', 'NONE', 'nOnE', ''))
--- error_code eval
[(401) x 10]
--- response_headers eval
[("WWW-Authenticate: Bearer realm=\"models\"\nX-Consumer: ") x 10]
--- response_body_like eval
[('"type":"authentication_error","param":null,"code":"invalid_token"') x 10]



=== TEST 3: HS256 with what everybody knows of an RSA key
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
}
location /all/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_auth_jwt_algs      RS256 HS256;
    mistral_pass               null;
}
location /pem/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/both.pem;
    mistral_auth_jwt_algs      HS256 RS256 ES256;
    mistral_pass               null;
}
--- request eval
[map { my $p = $_; map { s/v1/$p/r } @{ ::ask(4) } } 'v1', 'all', 'pem']
--- more_headers eval
::bearer(map {
    my ($pem, $n) = (::pem('rsa'), ::jwk('rsa')->{n});
    ::key('as_pem', 'oct', $pem);
    ::key('as_n', 'oct', MIME::Base64::decode_base64url($n));
    ::key('as_text', 'oct', $n);
    (::token('as_pem', 'HS256', \%::Me), ::token('as_pem', 'HS256', \%::Me, { kid => 'new' }),
     ::token('as_n', 'HS256', \%::Me), ::token('as_text', 'HS256', \%::Me, { kid => 'new' }))
} 1 .. 3)
--- error_code eval
[(401) x 12]
--- response_body_like eval
[('invalid_token') x 12]



=== TEST 4: HS256 only where it is listed and the key is a secret
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
}
location /all/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_auth_jwt_algs      RS256 HS256;
    mistral_pass               null;
}
--- request eval
[map { my $p = $_; map { s/v1/$p/r } @{ ::ask(3) } } 'v1', 'all']
--- more_headers eval
::bearer(map { ::token('secret', 'HS256', \%::Me), ::token('rsa', 'RS256', \%::Me),
               ::token('ec', 'ES256', \%::Me) } 1, 2)
--- error_code eval
[401, 200, 200, 200, 200, 401]



=== TEST 5: the algorithm is the key's, the kid the right one
--- request eval
::ask(8)
--- more_headers eval
::bearer(::token('rsa', 'RS512', \%::Me, { kid => 'new' }), ::token('rsa', 'PS256', \%::Me, { kid => 'new' }),
         ::token('old', 'RS256', \%::Me, { kid => 'old' }), ::token('rsa', 'RS256', \%::Me, { kid => 'old' }),
         ::token('rsa', 'RS256', \%::Me, { kid => 'New' }), ::token('rsa', 'RS256', \%::Me, { kid => '' }),
         ::token('eve', 'RS256', \%::Me, { kid => 'new' }), ::token('eve', 'RS256', \%::Me))
--- error_code eval
[(401) x 8]
--- response_body_like eval
[('The token is signed by an algorithm that no key of ours has'), ('The token names no key of ours') x 5, ('The token has a wrong signature') x 2]



=== TEST 6: stripped, empty, changed signature; not a token at all
--- request eval
::ask(9)
--- more_headers eval
my $t = ::token('rsa', 'RS256', \%::Me);
::bearer($t =~ s/[^.]*\z//r, $t =~ s/\.[^.]*\z//r, $t . 'A', $t . '=', $t =~ s/.\z//r, "$t.$t",
         $t =~ s/\.([^.]*)\./'.' . ::b64('{"sub":"root","exp":' . $::Soon . '}') . '.'/er,
         'sk-alice', '..')
--- error_code eval
[(401) x 9]
--- response_body_like eval
[('invalid_token') x 9]



=== TEST 7: a key in the header is nobody's
--- request eval
::ask(3)
--- more_headers eval
::bearer(::token('eve', 'RS256', \%::Me, { jwk => ::jwk('eve') }),
         ::token('eve', 'RS256', \%::Me, { jwk => ::jwk('eve', kid => 'new'), kid => 'new' }),
         ::token('eve', 'RS256', \%::Me, { jku => 'http://127.0.0.1/keys', x5u => 'http://127.0.0.1/' }))
--- error_code eval
[(401) x 3]
--- response_body_like eval
[('wrong signature') x 3]



=== TEST 8: duplicate claims, claims that are no object, a header twice
--- request eval
::ask(7)
--- more_headers eval
::bearer((map { ::signed('rsa', 'RS256', '{"alg":"RS256"}', $_) }
          '{"sub":"me","sub":"root","exp":' . $::Soon . '}', '["me"]', '"me"', '1', 'null', ''),
         ::signed('rsa', 'RS256', '{"alg":"none","alg":"RS256"}', '{"exp":' . $::Soon . '}'))
--- error_code eval
[(401) x 7]
--- response_body_like eval
[('has claims that are malformed') x 6, 'is malformed']



=== TEST 9: expired, not yet valid, from the future, no end
--- request eval
::ask(8)
--- more_headers eval
my $now = time;
::bearer(map { ::token('rsa', 'RS256', $_) }
         { sub => 'me', exp => $now - 10 }, { sub => 'me', exp => $::Soon, nbf => $now + 600 },
         { sub => 'me', exp => $::Soon, iat => $now + 600 }, { sub => 'me' },
         { sub => 'me', exp => "$::Soon" }, { sub => 'me', exp => undef },
         { sub => 'me', exp => $::Soon, nbf => $now - 60, iat => $now - 60 },
         { sub => 7, exp => $::Soon })
--- error_code eval
[401, 401, 401, 401, 401, 401, 200, 401]
--- response_body_like eval
['"message":"The token has expired\.".*"code":"token_expired"', 'is not valid yet', 'is not valid yet',
 'has no ..exp', 'has claims that', 'has claims that', '"T"', 'has claims that']



=== TEST 10: leeway, and no end asked for
--- config
location /v1/ {
    mistral_auth_jwt              "models";
    mistral_auth_jwt_key_file     $TEST_NGINX_KEYS/jwks.json;
    mistral_auth_jwt_leeway       2m;
    mistral_auth_jwt_require_exp  off;
    mistral_pass                  null;
}
--- request eval
::ask(6)
--- more_headers eval
my $now = time;
::bearer(map { ::token('rsa', 'RS256', $_) }
         { exp => $now - 60 }, { exp => $now - 180 }, { nbf => $now + 60 }, { nbf => $now + 300 },
         { iat => $now + 60 }, {})
--- error_code eval
[200, 401, 200, 401, 200, 200]



=== TEST 11: issuer and audience
--- config
location /v1/ {
    mistral_auth_jwt           models iss=https://a.example iss=https://b.example aud=llm aud=chat;
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
}
--- request eval
::ask(8)
--- more_headers eval
::bearer(map { ::token('rsa', 'RS256', { %::Me, %$_ }) }
         { iss => 'https://a.example', aud => 'llm' }, { iss => 'https://b.example', aud => ['x', 'chat'] },
         { iss => 'https://c.example', aud => 'llm' }, { aud => 'llm' },
         { iss => 'https://a.example', aud => 'other' }, { iss => 'https://a.example', aud => ['x', 'y'] },
         { iss => 'https://a.example', aud => [] }, { iss => 'https://a.example' })
--- error_code eval
[200, 200, 401, 401, 401, 401, 401, 401]
--- response_body_like eval
['T', 'T', ('has another issuer') x 2, ('is for another audience') x 4]



=== TEST 12: 64 KiB, and what still fits
--- main_config
--- http_config
large_client_header_buffers 4 128k;
--- request eval
::ask(3)
--- more_headers eval
::bearer(map { ::token('rsa', 'RS256', { %::Me, pad => 'x' x $_ }) } 48000, 13000, 11000)
--- error_code eval
[401, 401, 200]
--- response_body_like eval
['is malformed', 'is malformed', '"T"']



=== TEST 13: claims are variables, nested ones too
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
    # $mistral_jwt_claim_* by their name
    add_header X-Claims "$mistral_jwt_claim_sub|$mistral_jwt_claim_n|$mistral_jwt_claim_list|$mistral_jwt_claim_realm_access__roles|$mistral_jwt_claim_o__p|$mistral_jwt_claim_absent|$mistral_jwt_claim_line";
    add_header X-Set "$roles|$url|$none";
}
--- http_config
mistral_auth_jwt_claim_set $roles realm_access roles;
mistral_auth_jwt_claim_set $url   https://example.com/tier;
mistral_auth_jwt_claim_set $none  sub roles;
--- request eval
::ask(1)
--- more_headers eval
::bearer(::token('rsa', 'RS256', { %::Me, n => 7, list => ['a', 'b', 1],
         realm_access => { roles => ['user', 'admin'] }, o => { p => { q => \1 } },
         line => "a\r\nX-Evil: 1", 'https://example.com/tier' => 'gold' }))
--- response_headers
X-Claims: me|7|a,b,1|user,admin|{"q":true}||
X-Set: user,admin|gold|
X-Evil:



=== TEST 14: consumer, tier, models, quota come from claims
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
    add_header X-Consumer "$mistral_consumer|$mistral_consumer_tier|$mistral_consumer_models|$mistral_consumer_quota";
}
location /mail/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_consumer           $mistral_jwt_claim_email;
    mistral_pass               null;
    add_header X-Consumer "$mistral_consumer";
}
--- request eval
[@{ ::ask(2) }, map { s/v1/mail/r } @{ ::ask(2) }]
--- more_headers eval
::bearer((map { ::token('rsa', 'RS256', { %::Me, %$_ }) }
          { tier => 'gold', models => ['null', 'x'], quota => 1000 }, {},
          { email => 'me@example.com' }, {}))
--- response_headers eval
["X-Consumer: me|gold|null,x|1000", "X-Consumer: me|||", 'X-Consumer: me@example.com', "X-Consumer:"]



=== TEST 15: what a token must say
--- http_config
map $mistral_jwt_claim_scope $can_chat { "~\bchat\b" 1; default 0; }
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_auth_jwt_require   $mistral_jwt_claim_team error=401;
    mistral_auth_jwt_require   $can_chat $mistral_jwt_claim_on;
    mistral_pass               null;
    location /v1/open/ { mistral_auth_jwt_require $mistral_jwt_claim_sub; mistral_pass null; }
}
--- request eval
[@{ ::ask(6) }, map { s/v1/v1\/open/r } @{ ::ask(1) }]
--- more_headers eval
::bearer(map { ::token('rsa', 'RS256', { %::Me, %$_ }) }
         { team => 'a', scope => 'read chat', on => 1 },
         { team => 'a', scope => 'chat', on => JSON::PP::false() }, { team => 'a', scope => 'read', on => 1 },
         { team => 'a', scope => 'chat', on => 0 }, { team => 'a', scope => 'chat' },
         { scope => 'chat', on => 1 }, {})
--- error_code eval
[200, 403, 403, 403, 403, 401, 200]
--- response_headers eval
["WWW-Authenticate:", "WWW-Authenticate:", "WWW-Authenticate:", "WWW-Authenticate:", "WWW-Authenticate:",
 'WWW-Authenticate: Bearer realm="models"', "WWW-Authenticate:"]
--- response_body_like eval
['"T"', ('"type":"invalid_request_error","param":null,"code":"access_denied"') x 4,
 '"code":"invalid_token"', '"T"']



=== TEST 16: PEM: several keys, no kid
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/both.pem;
    mistral_pass               null;
}
location /ps/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/both.pem;
    mistral_auth_jwt_algs      PS384;
    mistral_pass               null;
}
--- request eval
[@{ ::ask(4) }, map { s/v1/ps/r } @{ ::ask(3) }]
--- more_headers eval
::bearer(::token('rsa', 'RS256', \%::Me), ::token('ec', 'ES256', \%::Me, { kid => 'x' }),
         ::token('rsa', 'PS384', \%::Me), ::token('eve', 'RS256', \%::Me),
         ::token('rsa', 'PS384', \%::Me), ::token('rsa', 'RS256', \%::Me), ::token('ec', 'ES256', \%::Me))
--- error_code eval
[200, 200, 401, 401, 200, 401, 401]



=== TEST 17: a token from elsewhere; only the bearer else
--- config
location /v1/ {
    mistral_auth_jwt           models token=$cookie_token;
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
}
location /bearer/ {
    mistral_auth_jwt           models;
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
}
--- request eval
[@{ ::ask(2) }, map { s/v1/bearer/r } @{ ::ask(1) }]
--- more_headers eval
my $t = ::token('rsa', 'RS256', \%::Me);
["Cookie: token=$t", "Authorization: Bearer $t", "x-api-key: $t"]
--- error_code eval
[200, 401, 401]



=== TEST 18: keys and tokens side by side, one is enough
--- config
location /v1/ {
    mistral_auth_key           "keys";
    mistral_auth_key_file      $TEST_NGINX_HTML_DIR/keys;
    mistral_auth_jwt           "tokens";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_auth_jwt_require   $mistral_jwt_claim_team;
    mistral_pass               null;
    add_header X-Consumer "$mistral_consumer" always;
}
--- user_files eval
[['keys', ::line('alice', 'sk-alice')]]
--- request eval
::ask(6)
--- more_headers eval
[@{ ::bearer('sk-alice', ::token('rsa', 'RS256', { %::Me, team => 1 }), ::token('rsa', 'RS256', \%::Me),
             'sk-eve', ::token('rsa', 'RS256', { exp => 1 })) }, ""]
--- error_code eval
[200, 200, 403, 401, 401, 401]
--- response_headers eval
["X-Consumer: alice", "X-Consumer: me", "X-Consumer: me",
 (map { qq/WWW-Authenticate: Bearer realm="keys"/ } 1 .. 3)]
--- response_body_like eval
['T', 'T', 'access_denied', 'invalid_api_key', 'token_expired', 'missing_credentials']



=== TEST 19: satisfy any with auth_basic
--- config
location /v1/ {
    satisfy                    any;
    auth_basic                 "people";
    auth_basic_user_file       $TEST_NGINX_HTML_DIR/users;
    mistral_auth_jwt           "tokens";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
}
--- user_files
>>> users
me:{PLAIN}secret
--- request eval
::ask(4)
--- more_headers eval
["Authorization: Basic bWU6c2VjcmV0", "Authorization: Basic bWU6",
 @{ ::bearer(::token('rsa', 'RS256', \%::Me), ::token('eve', 'RS256', \%::Me)) }]
--- error_code eval
[200, 401, 200, 401]
--- raw_response_headers_like eval
['(?s)\A(?!.*WWW-Authenticate)',
 '(?s)(?=.*WWW-Authenticate: Bearer realm="tokens"\r\n)(?=.*WWW-Authenticate: Basic)',
 '(?s)\A(?!.*WWW-Authenticate)',
 '(?s)(?=.*WWW-Authenticate: Bearer realm="tokens"\r\n)(?=.*WWW-Authenticate: Basic)']
--- response_body_like eval
['T', 'missing_credentials', 'T', 'wrong signature']



=== TEST 20: limit_conn and limit_req see the verified name only
--- http_config
limit_req_zone $mistral_consumer zone=z:1m rate=1r/m;
--- config
location /v1/ {
    limit_req                  zone=z;
    limit_req_status           429;
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
    mistral_pass               null;
}
--- request eval
::ask(5)
--- more_headers eval
::bearer(::token('eve', 'RS256', \%::Me), ::token('eve', 'RS256', \%::Me), ::token('rsa', 'RS256', \%::Me),
         ::token('ec', 'ES256', \%::Me), ::token('rsa', 'RS256', { %::Me, sub => 'you' }))
--- error_code eval
[401, 401, 200, 429, 200]



=== TEST 21: a weak key
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/weak.json;
    mistral_pass               null;
}
--- must_die
--- error_log
weak.json" key 1: has 1024 bits



=== TEST 22: a private key
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/rsa.key;
    mistral_pass               null;
}
--- must_die
--- error_log
rsa.key" holds a private key, which has no place here: openssl pkey -pubout makes a public one in
nginx.conf:



=== TEST 23: a secret, and nothing that may use it
--- config
location /v1/ {
    mistral_auth_jwt           "models";
    mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/secret.json;
    mistral_pass               null;
}
--- must_die
--- error_log
secret.json" holds no key for any of the algorithms that are allowed



=== TEST 24: no file is named
--- config
location /v1/ { mistral_auth_jwt models; mistral_pass null; }
--- must_die
--- error_log
"mistral_auth_jwt" needs a "mistral_auth_jwt_key_file" in



=== TEST 25: an algorithm that is none
--- config
location /v1/ {
    mistral_auth_jwt       models;
    mistral_auth_jwt_algs  RS256 none;
    mistral_pass           null;
}
--- must_die
--- error_log
unknown algorithm "none"



=== TEST 26: a requirement that is none
--- config
location /v1/ {
    mistral_auth_jwt_require  $mistral_jwt_claim_sub error=400;
    mistral_pass              null;
}
--- must_die
--- error_log
invalid parameter "error=400"



=== TEST 27: a variable that is somebody else's
--- http_config
mistral_auth_jwt_claim_set $remote_addr sub;
--- config
location /v1/ { mistral_pass null; }
--- must_die
--- error_log
the duplicate "remote_addr" variable



=== TEST 28: another parameter
--- config
location /v1/ { mistral_auth_jwt models key=x; mistral_pass null; }
--- must_die
--- error_log
invalid parameter "key=x"



=== TEST 29: a bad signature is no error of a TLS connection
--- http_config
server {
    listen unix:$TEST_NGINX_HTML_DIR/socket ssl;
    ssl_certificate      $TEST_NGINX_CERT/crt;
    ssl_certificate_key  $TEST_NGINX_CERT/key;
    location /v1/ {
        mistral_auth_jwt           "models";
        mistral_auth_jwt_key_file  $TEST_NGINX_KEYS/jwks.json;
        mistral_pass               null;
    }
}
--- config
location /v1/ {
    proxy_pass https://unix:$TEST_NGINX_HTML_DIR/socket:;
    proxy_ssl_session_reuse off;
}
--- request eval
::ask(6)
--- more_headers eval
my ($good, $ec) = (::token('rsa', 'RS256', \%::Me), ::token('ec', 'ES256', \%::Me));
::bearer(::token('eve', 'RS256', \%::Me), $ec =~ s/[^.]*\z/'A' x 86/er, $good,
         $good =~ s/[^.]*\z/'A' x 342/er, $good . 'AA', $ec)
--- error_code eval
[401, 401, 200, 401, 401, 200]
--- no_error_log
stale global SSL error
[alert]
