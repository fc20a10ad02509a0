#!/usr/bin/perl

# The runner in t/lib is a test too: what is right passes with the number of
# assertions that upstream's library makes, and every section can fail.

use warnings;
use strict;

use File::Temp qw/ tempdir /;
use Test::More;

my $dir = tempdir(CLEANUP => 1);

$ENV{TEST_NGINX_LOAD_MODULES} = '';

my $head = <<'EOT';
use Test::Nginx::Socket 'no_plan';
repeat_each(2);
run_tests();
__DATA__

EOT

my ($exit, $out) = blocks($head . <<'EOT');
=== static
--- config
    location /t { return 200 "hello $arg_a\n"; }
--- request
    # a comment
GET /t?a=5
--- response_body
hello 5

=== body and headers
--- config
    location /t {
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/e;
        add_header X-A $http_x_a always;
    }
    location /e {
        add_header X-L $http_content_length;
        return 201 "created";
    }
--- request
POST /t
hello world
--- more_headers
X-A: one
--- response_headers
X-A: one
X-L: 11
!X-B
--- response_body chomp
created
--- error_code: 201

=== a list of requests
--- config
    location /t { return 200 "$request_method"; }
--- request eval
["GET /t", "HEAD /t", "GET /x"]
--- error_code eval
[200, 200, 404]
--- response_body_like eval
["^GET\$", "^\$", "404"]

=== pipelined
--- config
    location /t { return 200 "$arg_a"; }
--- pipelined_requests eval
["GET /t?a=1", "GET /t?a=2"]
--- response_body eval
["1", "2"]

=== files and raw requests in pieces
--- config
--- user_files
>>> a/b.txt
some text
--- raw_request eval
["GET /a/b.txt HT", "TP/1.0\r\n\r\n"]
--- raw_request_middle_delay: 0.01
--- response_body
some text
--- raw_response_headers_like: Content-Length: 10\r\n
--- raw_response_headers_unlike: Chunked

=== logs
--- config
    location /t { return 200 "x"; }
--- request
GET /t
--- response_body chomp
x
--- error_log eval
[qr/http finalize request/, "close http connection"]
--- no_error_log
[error]
--- grep_error_log eval
qr/http uri: "[^"]*"/
--- grep_error_log_out
http uri: "/t"
--- access_log
"GET /t HTTP/1.1" 200
--- no_access_log
" 404 "

=== a configuration that is refused
--- config
    nonsense;
--- must_die
--- error_log
unknown directive "nonsense"

=== packets
--- config
    location /t {
        client_body_buffer_size 1k;
        proxy_pass http://127.0.0.1:$TEST_NGINX_SERVER_PORT/e;
    }
    location /e { return 200 "$http_content_length"; }
--- request eval
[["POST /t HTTP/1.1\n", "abc", {value => "def", delay_before => 0.02}]]
--- response_body chomp
6

=== a client that leaves
--- config
    location /t { limit_rate 1; return 200 "0123456789"; }
--- init: $main::init++
--- request
GET /t
--- timeout: 100ms
--- abort
--- ignore_response
--- wait: 0.1
--- error_log
http run request

=== skipped
--- config
    location /t { return 200; }
--- skip_eval: 3: 1
--- request
GET /t
EOT

is($exit, 0, 'all blocks pass') or diag $out;
ok(!-d "$dir/root", 'nothing stays behind');
unlike($out, qr/^not ok/m, 'no assertion fails');

# counted with upstream's library: 34 a round

is(scalar(() = $out =~ /^ok (?!.*# skip)/mg), 2 * 34,
   'the number of assertions');
is(scalar(() = $out =~ /^ok .*# skip/mg), 6, 'skipped ones are counted');

# each of these fails once and says so in these words

my @failures = (
    ['status', 'GET /t', '--- error_code: 201', qr/status/],
    ['no such page', 'GET /x', '', qr/status/],
    ['body', 'GET /t', "--- response_body\ny", qr/body/],
    ['like', 'GET /t', '--- response_body_like: y', qr/body/],
    ['unlike', 'GET /t', '--- response_body_unlike: x', qr/body/],
    ['header', 'GET /t', "--- response_headers\nX-A: 2", qr/header X-A/],
    ['no header', 'GET /t', "--- response_headers\n!X-A", qr/no header X-A/],
    ['header like', 'GET /t', "--- response_headers_like\nX-A: 2+",
     qr/header X-A/],
    ['raw', 'GET /t', '--- raw_response_headers_like: X-B', qr/raw head/],
    ['raw not', 'GET /t', '--- raw_response_headers_unlike: X-A',
     qr/raw head/],
    ['log', 'GET /t', "--- error_log\nnever said", qr/log has "never said"/],
    ['no log', 'GET /t', "--- no_error_log\nhttp finalize",
     qr/no "http finalize" in error log/],
    ['access', 'GET /t', "--- access_log\nnever", qr/log has "never"/],
    ['no access', 'GET /t', "--- no_access_log\nGET", qr/no "GET" in acc/],
    ['grep', 'GET /t',
     "--- grep_error_log: http uri\n--- grep_error_log_out\nx",
     qr/grep_error_log/],
    ['alive', 'GET /t', '--- must_die', qr/nginx does not start/],
    ['code', 'GET /t', '--- must_die: 2', qr/nginx exits with 2/],
    ['slow', 'GET /slow', "--- timeout: 0.1\n--- ignore_response",
     qr/no end of the answer/],
    ['alert', 'GET /t', log_file('[alert] 1#1: bad'),
     qr/\[alert\] 1\\?#1: bad/],
    ['emerg', 'GET /t', log_file('[emerg] 1#1: bad'),
     qr/\[emerg\] 1\\?#1: bad/],
    ['asan', 'GET /t', log_file('==1==ERROR: AddressSanitizer: x'),
     qr/AddressSan/],
);

my $all = $head =~ s/repeat_each\(2\);\n//r;

for my $f (@failures) {
    my ($name, $request, $sections) = @$f;

    $all .= <<"EOT";
=== $name
--- config
    location /t { add_header X-A 1; return 200 "x"; }
    location /slow { limit_rate 1; return 200 "0123456789"; }
--- request
$request
$sections

EOT
}

($exit, $out) = blocks($all);

is($exit, scalar @failures, 'every block fails once');

for my $f (@failures) {
    my ($name, undef, undef, $words) = @$f;

    like($out, qr/^not ok \d+ - \Q$name\E - .*$words/m,
         "$name: fails in these words");
}

ok(-d "$dir/root", 'what failed can be looked at');
ok(!-f "$dir/root/logs/nginx.pid", 'and its nginx is gone');

# a stream that was cut

my $said = `$^X -It/lib -MTest::Nginx::Socket=no_plan -e '
    my \$raw = "5\\r\\nabcde\\r\\n3\\r\\nfg";
    Test::Nginx::Socket::dechunk(\\\$raw)' 2>&1`;

like($said, qr/^not ok 1 - a chunked response has its last chunk/,
     'a chunked response without its last chunk fails');

done_testing();


# a line in the error log before nginx opens it

sub log_file {
    my ($line) = @_;

    return "--- user_files eval\n[['../logs/error.log', \"$line\\n\"]]";
}


sub blocks {
    my ($text) = @_;

    open my $fh, '>', "$dir/blocks.t" or die $!;
    print $fh $text;
    close $fh;

    my $said = `TEST_NGINX_SERVROOT=$dir/root $^X -It/lib $dir/blocks.t 2>&1`;

    return ($? >> 8, $said);
}
