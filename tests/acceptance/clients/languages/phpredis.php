<?php
// phpredis: goes through the scenario.
[, $port, $orders] = $argv;
[$billing, $audit] = ["$orders-billing", "$orders-audit"];

// A status such as OK is returned as true.
function say(...$words) {
    echo implode(' ', array_map(fn($word) => $word === true ? 'OK' : $word, $words)), "\n";
}

function connected($port) {
    $client = new Redis();
    $client->connect('127.0.0.1', (int) $port);
    return $client;
}

// After an error, exec would wait for replies that do not come: until the read timeout, as with Redis.
function refusal($client, ...$commands) {
    $client->multi();
    foreach ($commands as $command) {
        if ($client->rawCommand(...$command) === false) {
            $client->discard();
            return $client->getLastError();
        }
    }
    try {
        $client->setOption(Redis::OPT_READ_TIMEOUT, 0.5);
        return 'nothing was refused: ' . implode(' ', $client->exec());
    } catch (RedisException $error) {
        return $error->getMessage();
    }
}

$client = connected($port);
say('publish', $client->rawCommand('PUBLISH', $orders, 'first'));
$pipeline = $client->pipeline();
for ($number = 0; $number < 9; $number++) {
    $pipeline->rawCommand('PUBLISH', $orders, "m$number");
}
say('pipeline', ...$pipeline->exec());
$received = $client->rawCommand('RECEIVE', $orders, 'COUNT', 10);
say('receive', ...array_column($received, 1));
say('ack', ...$client->rawCommand('ACK', $orders, ...array_column($received, 0)));

$client->rawCommand('PUBLISH', $orders, 'second');
// docs:
[[$receipt, $payload]] = $client->rawCommand('RECEIVE', $orders, 'WAIT', 20);
$replies = $client->multi()
    ->rawCommand('PUBLISH', $billing, $payload)
    ->rawCommand('PUBLISH', $audit, $payload)
    ->rawCommand('ACK', $orders, $receipt)
    ->exec();
// docs end
say('exec', ...$replies);
say('unknown', refusal($client, ['PUBLISH', $billing, 'never'], ['NOSUCH']));
say('refused', refusal($client, ['PUBLISH', $billing, 'never'], ['ACK', $orders, $receipt]));
$client = connected($port);
$client->multi();
$client->rawCommand('PUBLISH', $billing, 'never');
say('discard', $client->discard());

$client->rawCommand('PUBLISH', $orders, 'third');
say('restart');
fgets(STDIN);
for ($received = null; !$received; usleep(100_000)) {
    try {
        $received = $client->rawCommand('RECEIVE', $orders);
    } catch (RedisException $error) {
        continue; // it connects again with the next command
    }
}
[[$receipt, $payload]] = $received;
say('again', $payload, $client->rawCommand('ACK', $orders, $receipt), $client->rawCommand('PUBLISH', $orders, 'last'));
