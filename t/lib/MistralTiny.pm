package MistralTiny;

# Small checkpoints: those of t/data/golden/tiny, which have no tokenizer, with
# one of bytes and ChatML beside them; and random ones of any shape.

use warnings;
use strict;

use Exporter 'import';
use JSON::PP;

our @EXPORT = qw/ checkpoint random_checkpoint expected tokenizer_json /;

# 320 ids: a byte's is its value, two merges, tokens that no merge makes, and
# control tokens
our %Control = ('<s>' => 300, '</s>' => 301, '<|im_start|>' => 302,
                '<|im_end|>' => 303, '[PREFIX]' => 304, '[SUFFIX]' => 305,
               map { ("<$_>" => $_) } 306 .. 319);

our $ChatML = <<'END' =~ s/\n//gr =~ s/\\n/\n/gr;
{% for message in messages %}
{% if loop.first and messages[0]['role'] != 'system' %}
{{ '<|im_start|>system\n
You are a helpful AI assistant named SmolLM, trained by Hugging Face
<|im_end|>\n' }}
{% endif %}
{{'<|im_start|>' + message['role'] + '\n' + message['content']
 + '<|im_end|>' + '\n'}}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\n' }}
{% endif %}
END


our $Golden = 't/data/golden/tiny';

sub golden { "$Golden/$_[0]" }


sub read_all {
    my ($path) = @_;

    open my $fh, '<:raw', $path or die "$path: $!";
    local $/;

    return <$fh>;
}


sub write_all {
    my ($path, $data) = @_;

    open my $fh, '>:raw', "$path.tmp" or die "$path: $!";
    print $fh $data or die $!;
    close $fh or die $!;
    rename "$path.tmp", $path or die $!;
}


# logits and ids of the reference implementation

sub expected { decode_json(read_all(golden($_[0]) . '/expected.json')) }


# GPT-2's alphabet: the code point that stands for a byte

sub letter {
    my ($byte) = @_;
    my $n = 0;

    for (0 .. $byte) {
        my $plain = $_ > 32 && $_ < 127 || $_ > 160 && $_ != 173;

        return $plain ? $_ : 256 + $n if $_ == $byte;
        $n++ if !$plain;
    }
}


sub tokenizer_json {
    my %vocab = map { chr(letter($_)) => $_ } 0 .. 255;

    @vocab{'he', 'll'} = (256, 257);
    $vocab{"t$_"} = $_ for 258 .. 299;

    return encode_json({
        normalizer => undef,
        pre_tokenizer => { type => 'ByteLevel', add_prefix_space =>
                           JSON::PP::false, use_regex => JSON::PP::true },
        added_tokens => [map { { id => $Control{$_}, content => $_,
                                 special => JSON::PP::true } }
                         sort { $Control{$a} <=> $Control{$b} }
                         keys %Control],
        model => { type => 'BPE', vocab => \%vocab,
                   merges => ['h e', 'l l'] },
    });
}


# $dir becomes the checkpoint NAME with a tokenizer; %o: template => TEXT or
# undef; config => sub that changes the configuration; no_tokenizer => 1

sub checkpoint {
    my ($dir, $name, %o) = @_;

    mkdir $dir or $!{EEXIST} or die "$dir: $!";
    unlink glob "$dir/*";

    for my $path (glob golden($name) . '/*') {
        my ($file) = $path =~ m{([^/]+)$};

        next if $file eq 'expected.json';

        my $data = read_all($path);

        if ($file eq 'config.json' && $o{config}) {
            my $c = decode_json($data);
            $o{config}->($c);
            $data = encode_json($c);
        }

        write_all("$dir/$file", $data);
    }

    words($dir, %o);

    return $dir;
}


sub words {
    my ($dir, %o) = @_;

    return if $o{no_tokenizer};

    my %config = (bos_token => '<s>', eos_token => { content => '</s>' });

    $config{chat_template} = $o{template} // $ChatML
        if !exists $o{template} || defined $o{template};

    write_all("$dir/tokenizer.json", tokenizer_json());
    write_all("$dir/tokenizer_config.json", encode_json(\%config));
}


# of the configuration of golden NAME, changed; the program writes it

sub random_checkpoint {
    my ($program, $dir, $name, %o) = @_;
    my $c = decode_json(read_all(golden($name) . '/config.json'));

    $o{config}->($c) if $o{config};
    write_all("$dir.config", encode_json($c));

    my $said = qx{'$program' inspect '$dir' --make-random '$dir.config' \\
                  --format safetensors --type f32 --json 2>&1};

    die "mistral inspect --make-random: $said" if $? != 0;

    words($dir, %o);

    return $dir;
}


1;
