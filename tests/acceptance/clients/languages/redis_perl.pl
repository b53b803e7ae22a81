# Redis.pm: goes through the scenario.
use strict;
use warnings;
use Redis;

my ($port, $orders) = @ARGV;
my ($billing, $audit) = ("$orders-billing", "$orders-audit");
$| = 1;
my $client = Redis->new(server => "127.0.0.1:$port", reconnect => 60, every => 100_000);

sub say { print join(' ', @_), "\n" }

sub refusal {
    my $act = shift;
    my @replies = eval { $act->() };
    return $@ =~ s/\n.*//sr if $@;
    return "nothing was refused: @replies";
}

say('publish', $client->publish($orders, 'first'));
my @published;
$client->publish($orders, "m$_", sub { push @published, $_[0] }) for 0 .. 8;
$client->wait_all_responses;
say('pipeline', @published);
my @received = $client->receive($orders, 'COUNT', 10);
say('receive', map { $_->[1] } @received);
say('ack', $client->ack($orders, map { $_->[0] } @received));

$client->publish($orders, 'second');
# docs:
my ($message) = $client->receive($orders, 'WAIT', 20);
my ($receipt, $payload) = @$message;
$client->multi;
$client->publish($billing, $payload);
$client->publish($audit, $payload);
$client->ack($orders, $receipt);
my @replies = $client->exec;
# docs end
say('exec', @replies);
$client->multi;
$client->publish($billing, 'never');
refusal(sub { $client->nosuch });
say('unknown', refusal(sub { $client->exec }));
$client->multi;
$client->publish($billing, 'never');
$client->ack($orders, $receipt);
say('refused', refusal(sub { $client->exec }));
$client->multi;
$client->publish($billing, 'never');
say('discard', $client->discard);

$client->publish($orders, 'third');
say('restart');
<STDIN>;
my ($next) = $client->receive($orders, 'WAIT', 20);
say('again', $next->[1], $client->ack($orders, $next->[0]), $client->publish($orders, 'last'));
