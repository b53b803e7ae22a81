// ioredis as a client of Redis Cluster: finds the owner of a topic, publishes, receives. Prints what it got, as JSON.
import { Cluster } from 'ioredis';

const [port, topic] = process.argv.slice(2);
const cluster = new Cluster([{ host: '127.0.0.1', port: Number(port) }], { clusterRetryStrategy: null });
cluster.on('error', (error) => {
  console.error(error);
  process.exitCode = 1;
});

const published = await Promise.all([1, 2, 3].map((number) => cluster.call('PUB', topic, `m${number}`, 'KEY', 'k')));
const received = await cluster.call('RECEIVE', topic, 'COUNT', '10');
const settled = await cluster.call('ACK', topic, ...received.map(([receipt]) => receipt));

console.log(JSON.stringify({ published, settled, payloads: received.map((message) => message[1]) }));
cluster.disconnect();
