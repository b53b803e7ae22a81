// node-redis or ioredis as a consumer: receives with leases, settles by receipt, waits. Prints what it got, as JSON.
const [library, port, topic, protocol] = process.argv.slice(2);

async function connect() {
  if (library === 'ioredis') {
    const { Redis } = await import('ioredis');
    const client = new Redis({ host: '127.0.0.1', port: Number(port), retryStrategy: null });
    return { call: (...words) => client.call(...words), close: () => client.disconnect() };
  }
  const { createClient } = await import('redis');
  const socket = { host: '127.0.0.1', port: Number(port), reconnectStrategy: false };
  const client = createClient({ RESP: Number(protocol), socket });
  await client.connect();
  return { call: (...words) => client.sendCommand(words), close: () => client.destroy() };
}

const [worker, other] = [await connect(), await connect()];
await worker.call('MPUBLISH', topic, 'a', 'b', 'c');
const received = await worker.call('RECEIVE', topic, 'COUNT', '10', 'LEASE', '60');
const [a, b, c] = received.map(([receipt]) => receipt);
const settled = [
  await other.call('ACK', topic, a),
  await other.call('ACK', topic, a).catch((error) => error.message),
  await other.call('NACK', topic, b, a),
  await other.call('EXTEND', topic, c, '120'),
];
const again = await worker.call('RECEIVE', topic);
const waiting = worker.call('RECEIVE', `${topic}-more`, 'WAIT', '30');
await other.call('PUBLISH', `${topic}-more`, 'at last');

console.log(JSON.stringify({ received, settled, again, waited: await waiting }));
worker.close();
other.close();
