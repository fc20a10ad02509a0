package MistralJwt;

# Keys and tokens for tests, made anew by openssl in each run: JWK and PEM of
# the public halves, tokens signed with any header and payload.

use warnings;
use strict;

use Digest::SHA qw/ hmac_sha256 hmac_sha384 hmac_sha512 sha256_hex /;
use File::Temp qw/ tempdir /;
use JSON::PP ();
use MIME::Base64 qw/ encode_base64url decode_base64 /;

our @EXPORT = qw/ key jwk jwks pem token signed b64 line spew slurp keys_dir /;

my $Dir = tempdir(CLEANUP => 1);
my %Options = (
    RSA      => 'RSA -pkeyopt rsa_keygen_bits:2048',
    RSA1024  => 'RSA -pkeyopt rsa_keygen_bits:1024',
    'P-256'  => 'EC -pkeyopt ec_paramgen_curve:P-256',
    'P-384'  => 'EC -pkeyopt ec_paramgen_curve:P-384',
    'P-521'  => 'EC -pkeyopt ec_paramgen_curve:P-521',
    Ed25519  => 'ED25519',
);
my (%Type, %Secret);


sub import {
    my $to = caller;

    no strict 'refs';
    *{"${to}::$_"} = \&$_ for @EXPORT;

    # workers of another user look into it

    chmod 0755, $Dir;
    $ENV{TEST_NGINX_KEYS} = $Dir;
}


sub keys_dir { $Dir }
sub b64 { encode_base64url($_[0]) }


# a key called $name; "oct" is a secret of 64 bytes, or the one given

sub key {
    my ($name, $type, $secret) = @_;

    $Type{$name} = $type;

    if ($type eq 'oct') {
        $Secret{$name} = $secret // join '', map { chr int rand 256 } 1 .. 64;
        return;
    }

    run("openssl genpkey -algorithm $Options{$type} -out $Dir/$name.key");
    run("openssl pkey -in $Dir/$name.key -pubout -out $Dir/$name.pem");
}


sub pem {
    my ($name) = @_;

    return slurp("$Dir/$name.pem");
}


# the public half, with more members

sub jwk {
    my ($name, %more) = @_;
    my $type = $Type{$name};
    my $der = $type eq 'oct' ? ''
              : decode_base64(pem($name) =~ s/^-----.*\n//gmr);
    my %jwk;

    if ($type eq 'oct') {
        %jwk = (kty => 'oct', k => b64($Secret{$name}));

    } elsif ($type =~ /^RSA/) {
        my ($n) = `openssl rsa -pubin -in $Dir/$name.pem -modulus -noout`
                  =~ /=([0-9A-F]+)/;
        %jwk = (kty => 'RSA', n => b64(pack 'H*', $n), e => 'AQAB');

    } elsif ($type =~ /^P-(\d+)/) {
        my $size = int(($1 + 7) / 8);
        %jwk = (kty => 'EC', crv => $type,
                x => b64(substr $der, -2 * $size, $size),
                y => b64(substr $der, -$size));

    } else {
        %jwk = (kty => 'OKP', crv => $type, x => b64(substr $der, -32));
    }

    return { %jwk, %more };
}


# a JWKS of what jwk() made

sub jwks {
    return JSON::PP->new->canonical->encode({ keys => [@_] });
}


# a good token: header and payload are hashes, or JSON as it is

sub token {
    my ($name, $alg, $payload, $header) = @_;

    $header //= {};
    $header = { alg => $alg, typ => 'JWT', %$header } if ref $header;

    return signed($name, $alg, json($header), json($payload));
}


sub signed {
    my ($name, $alg, $header, $payload) = @_;
    my $input = b64($header) . '.' . b64($payload);

    return "$input." . b64(signature($name, $alg, $input));
}


sub json {
    my ($what) = @_;

    return ref $what ? JSON::PP->new->canonical->encode($what) : $what;
}


sub signature {
    my ($name, $alg, $input) = @_;
    my ($bits) = $alg =~ /(\d+)/;

    return MistralJwt->can("hmac_sha$bits")->($input, $Secret{$name})
        if $alg =~ /^HS/;

    spew("$Dir/input", $input);

    if ($alg eq 'EdDSA') {
        run("openssl pkeyutl -sign -rawin -inkey $Dir/$name.key"
            . " -in $Dir/input -out $Dir/output");
        return slurp("$Dir/output");
    }

    my $pss = $alg =~ /^PS/
              ? '-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest'
              : '';
    run("openssl dgst -sha$bits -sign $Dir/$name.key $pss"
        . " -out $Dir/output $Dir/input");

    return $alg =~ /^ES/ ? raw(slurp("$Dir/output"), $Type{$name})
                         : slurp("$Dir/output");
}


# r and s side by side instead of DER

sub raw {
    my ($der, $type) = @_;
    my $size = int((($type =~ /(\d+)/)[0] + 7) / 8);
    my @numbers;

    $der =~ s/^\x30(?:\x81.|[^\x80-\xff])//s or die "no sequence\n";

    while ($der =~ s/^\x02(.)//s) {
        my $number = substr $der, 0, ord $1, '';
        $number =~ s/^\0+//;
        push @numbers, "\0" x ($size - length $number) . $number;
    }

    return join '', @numbers;
}


# a line of a key file

sub line {
    my ($name, $key, @more) = @_;

    return join(':', $name, '{SHA256}' . sha256_hex($key), @more) . "\n";
}


sub run {
    my ($command) = @_;
    my $said = `$command 2>&1`;

    die "$command: $said\n" if $? != 0;
}


sub spew {
    my ($path, @text) = @_;

    open my $out, '>:raw', "$path.new" or die "$path: $!\n";
    print $out @text;
    close $out or die "$path: $!\n";
    rename "$path.new", $path or die "$path: $!\n";
}


sub slurp {
    my ($path) = @_;

    open my $in, '<:raw', $path or die "$path: $!\n";
    local $/;
    return <$in>;
}


1;
