package MistralPort;

# Ports that no other test of this machine gets, however many run at once and
# however often a server on one of them is started anew: each process has ten
# numbers of its own, by a lock that ends with it.  They are below those that
# the kernel gives to clients.  t/clients/harness.py does the same.

use warnings;
use strict;

use Exporter qw/ import /;
use Fcntl qw/ :flock /;
use File::Spec;
use IO::Socket::INET;

use constant { FIRST => 10000, EACH => 10, GROUPS => 2000 };

our @EXPORT_OK = qw/ free_port /;

my (@Ports, @Locks);
my $Owner = 0;


sub free_port {
    claim() if $Owner != $$ || !@Ports;

    while (@Ports) {
        my $port = shift @Ports;

        return $port
            if IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1,
                                     LocalPort => $port, ReuseAddr => 1);
    }

    return free_port();
}


# those of an earlier group stay ours, too: their lock is never closed

sub claim {
    my $dir = File::Spec->tmpdir . "/mistral-ports-$>";

    mkdir $dir;

    # not by chance: who has a seed draws the same numbers each time

    for my $n (map { ($$ * 31 + $_) % GROUPS } 0 .. GROUPS - 1) {

        open my $lock, '>>', "$dir/$n" or die "$dir/$n: $!";
        next if !flock $lock, LOCK_EX | LOCK_NB;

        push @Locks, $lock;
        $Owner = $$;
        @Ports = map { FIRST + EACH * $n + $_ } 0 .. EACH - 1;
        return;
    }

    die "no free ports\n";
}


1;
