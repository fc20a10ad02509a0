#!/usr/bin/perl

# Files of keys that change under running workers: what they may read they
# read again, what they may not or do not understand they say once, and a
# reload always helps.  A verified token ends with its key and its time.

use warnings;
use strict;

use lib 't/lib';

use MistralJwt ();
use MistralLife;
use Test::More;

my $S = server();
my $Dir = $S->{prefix};
my $Soon = time + 3600;

time_out(120);

MistralJwt::key($_, 'P-256') for qw/ first second /;

keys_are(MistralJwt::line('alice', 'sk-alice', 'gold'));
jwks_are('first');

conf(none => 1, workers => 1, locations => <<'END');
    location /key {
        mistral_auth_key       keys key=$arg_key;
        mistral_auth_key_file  keys;
        mistral_status         json;
        add_header             X-Consumer "$mistral_consumer/$mistral_consumer_tier" always;
    }
    location /jwt {
        mistral_auth_jwt           tokens token=$arg_token;
        mistral_auth_jwt_key_file  jwks;
        mistral_status             json;
    }
END

run_nginx();

# a key more, another tier, a key less: without a reload

is(key('sk-alice'), '200 alice/gold', 'a key');
is(key('sk-bob'), '401 /', 'not yet a key');

keys_are(MistralJwt::line('alice', 'sk-alice', 'lead'),
         MistralJwt::line('bob', 'sk-bob'));
ok(wait_for(sub { key('sk-bob') eq '200 bob/' }), 'a key that came');
is(key('sk-alice'), '200 alice/lead', 'another tier');
ok(logged(qr/\[notice\].*keys" has changed and was read again: 2 keys/),
   'is said');

keys_are(MistralJwt::line('bob', 'sk-bob'));
ok(wait_for(sub { key('sk-alice') eq '401 /' }), 'a key that went');
is(key('sk-bob'), '200 bob/', 'the other stays');

# written in place, twice within a moment, of one size

for my $name (qw/ a b c d /) {
    in_place("$Dir/keys", MistralJwt::line('bob', "sk-$name"));
    key('sk-bob');
}

ok(wait_for(sub { key('sk-d') eq '200 bob/' }), 'the last of many changes');
is(key('sk-a'), '401 /', 'not the first');

# damaged: the old ones stay, and one line

mark();
in_place("$Dir/keys", "bob:sk-bob\n");
ok(wait_for(sub { key('sk-d'); logged(qr/keys" has changed and line 1:/) }),
   'what is damaged is said');
key('sk-d'), sleep 1 for 1 .. 3;
is(key('sk-d'), '200 bob/', 'the keys before stay');
is(lines(qr/has changed and line/), 1, 'once');

keys_are(MistralJwt::line('bob', 'sk-bob'));
ok(wait_for(sub { key('sk-bob') eq '200 bob/' }), 'mended');

# gone, and back; the link of a mounted volume leads elsewhere

mark();
unlink "$Dir/keys";
ok(wait_for(sub { key('sk-bob'); logged(qr/may not look at/) }),
   'a file that is gone is said');
is(key('sk-bob'), '200 bob/', 'its keys stay');

MistralJwt::spew("$Dir/keys-2", MistralJwt::line('carol', 'sk-carol'));
symlink 'keys-2', "$Dir/keys" or die $!;
ok(wait_for(sub { key('sk-carol') eq '200 carol/' }), 'a link in its place');

MistralJwt::spew("$Dir/keys-3", MistralJwt::line('carol', 'sk-carl'));
symlink 'keys-3', "$Dir/keys.new" or die $!;
rename "$Dir/keys.new", "$Dir/keys" or die $!;
ok(wait_for(sub { key('sk-carl') eq '200 carol/' }), 'a link that moved');

# a reload that finds a damaged file does not happen

in_place("$Dir/keys", "x\n");
$S->{quiet} = 1;
isnt(nginx('-s', 'reload'), 0, 'a damaged file is no configuration');
like($S->{out}, qr/keys" line 1: the second field is not/, 'and why');
is(key('sk-carl'), '200 carol/', 'nothing has happened');
unlink "$Dir/keys";
keys_are(MistralJwt::line('carol', 'sk-carol'));

SKIP: {
    skip 'only root has files that its workers may not read', 6 if $> != 0;

    mark();
    MistralJwt::spew("$Dir/secret", MistralJwt::line('dave', 'sk-dave'));
    chmod 0600, "$Dir/secret";
    rename "$Dir/secret", "$Dir/keys" or die $!;

    ok(wait_for(sub { key('sk-carol');
                      logged(qr/\[error\].*may not read.*must be reloaded/) }),
       'what a worker may not read it says');
    is(key('sk-dave'), '401 /', 'the keys before stay');
    key('sk-carol'), sleep 1 for 1 .. 3;
    is(lines(qr/may not read/), 1, 'once');

    ok(reload(), 'reload');
    is(key('sk-dave'), '200 dave/', 'a reload reads it');
    is(key('sk-carol'), '401 /', 'and forgets the others');
}

# rotation of signing keys: both, then the new one alone

my ($old, $new) = map { MistralJwt::token($_, 'ES256', { exp => $Soon },
                                          { kid => $_ }) } qw/ first second /;

is(jwt($old), 200, 'a token');
is(jwt($new), 401, 'not yet a token');

jwks_are('first', 'second');
ok(wait_for(sub { jwt($new) == 200 }), 'of a key that came');
is(jwt($old), 200, 'both keys');

jwks_are('second');
ok(wait_for(sub { jwt($old) == 401 }), 'of a key that went, though known');
is(jwt($new), 200, 'the other stays');

mark();
in_place("$Dir/jwks", '{"keys":[');
ok(wait_for(sub { jwt($new); logged(qr/jwks" has changed and line 1/) }),
   'what is damaged is said');
is(jwt($new), 200, 'the keys before stay');

# a token that is known expires nevertheless

jwks_are('second');
my $short = MistralJwt::token('second', 'ES256', { exp => time + 3 },
                              { kid => 'second' });

ok(wait_for(sub { jwt($short) == 401 }), 'a known token expires');
like((fetch("GET /jwt?token=$short"))[2], qr/"token_expired"/, 'and why');

no_alerts('keys', qr/line 1/);
stop_nginx();
done_testing();


sub keys_are { MistralJwt::spew("$Dir/keys", @_) }

sub jwks_are {
    MistralJwt::spew("$Dir/jwks",
                     MistralJwt::jwks(map { MistralJwt::jwk($_, kid => $_) }
                                      @_));
}

sub in_place {
    my ($path, $text) = @_;

    open my $out, '>', $path or die "$path: $!";
    print $out $text;
    close $out or die "$path: $!";
}

sub key {
    my ($status, $head) = fetch("GET /key?key=$_[0]");
    my ($who) = $head =~ /^X-Consumer: ([^\r]*)/m;

    return "$status " . ($who // '');
}

sub jwt { return (fetch("GET /jwt?token=$_[0]"))[0] }
sub logged { return log_since() =~ $_[0] }
sub lines { my ($re) = @_; return scalar grep { $_ =~ $re } split /\n/, log_since() }
