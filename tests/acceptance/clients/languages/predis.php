<?php
// Predis: goes through the scenario.
require 'Predis/Autoloader.php';
Predis\Autoloader::register();

use Predis\Command\RawCommand;

[, $port, $orders] = $argv;
[$billing, $audit] = ["$orders-billing", "$orders-audit"];

function say(...$words) {
    echo implode(' ', $words), "\n";
}

function refusal($act) {
    try {
        return 'nothing was refused: ' . implode(' ', $act());
    } catch (Predis\PredisException $error) {
        return $error->getMessage();
    }
}

$client = new Predis\Client(['port' => $port, 'read_write_timeout' => 60]);
say('publish', $client->executeRaw(['PUBLISH', $orders, 'first']));
say('pipeline', ...$client->pipeline(function ($pipeline) use ($orders) {
    for ($number = 0; $number < 9; $number++) {
        $pipeline->publish($orders, "m$number");
    }
}));
$received = $client->executeRaw(['RECEIVE', $orders, 'COUNT', 10]);
say('receive', ...array_column($received, 1));
say('ack', ...$client->executeRaw(['ACK', $orders, ...array_column($received, 0)]));

$client->executeRaw(['PUBLISH', $orders, 'second']);
// docs:
[[$receipt, $payload]] = $client->executeRaw(['RECEIVE', $orders, 'WAIT', 20]);
$replies = $client->transaction(function ($transaction) use ($orders, $billing, $audit, $receipt, $payload) {
    $transaction->publish($billing, $payload);
    $transaction->publish($audit, $payload);
    $transaction->executeCommand(new RawCommand(['ACK', $orders, $receipt]));
});
// docs end
say('exec', ...$replies);
say('unknown', refusal(fn() => $client->transaction(function ($transaction) use ($billing) {
    $transaction->publish($billing, 'never');
    $transaction->executeCommand(new RawCommand(['NOSUCH']));
})));
say('refused', refusal(fn() => $client->transaction(function ($transaction) use ($billing, $orders, $receipt) {
    $transaction->publish($billing, 'never');
    $transaction->executeCommand(new RawCommand(['ACK', $orders, $receipt]));
})));
$client->executeRaw(['MULTI']);
$client->executeRaw(['PUBLISH', $billing, 'never']);
say('discard', $client->executeRaw(['DISCARD']));

$client->executeRaw(['PUBLISH', $orders, 'third']);
say('restart');
fgets(STDIN);
for ($received = null; !$received; usleep(100_000)) {
    try {
        $received = $client->executeRaw(['RECEIVE', $orders]);
    } catch (Predis\Connection\ConnectionException $error) {
        continue; // it connects again with the next command
    }
}
[[$receipt, $payload]] = $received;
$acked = $client->executeRaw(['ACK', $orders, $receipt]);
say('again', $payload, $acked, $client->executeRaw(['PUBLISH', $orders, 'last']));
