// node-redis as a client of Redis Cluster: finds the owner of a topic, publishes, receives. Prints what it got, as JSON.
import { createCluster } from 'redis';

const [port, topic] = process.argv.slice(2);
const cluster = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] });
cluster.on('error', (error) => {
  console.error(error);
  process.exitCode = 1;
});
await cluster.connect();

const send = (...words) => cluster.sendCommand(topic, false, words);
const published = await Promise.all([1, 2, 3].map((number) => send('PUB', topic, `m${number}`, 'KEY', 'k')));
const received = await send('RECEIVE', topic, 'COUNT', '10');
const settled = await send('ACK', topic, ...received.map(([receipt]) => receipt));

console.log(JSON.stringify({ published, settled, payloads: received.map((message) => message[1]) }));
await cluster.close();
