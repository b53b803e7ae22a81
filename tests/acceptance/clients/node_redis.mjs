// node-redis: connects, publishes, takes one message. Prints what it got, as JSON.
import { createClient } from 'redis';

const [port, topic, protocol] = process.argv.slice(2);
const client = createClient({
  RESP: Number(protocol),
  name: 'tester',
  socket: { host: '127.0.0.1', port: Number(port), reconnectStrategy: false },
});
client.on('error', (error) => {
  console.error(error);
  process.exitCode = 1;
});
await client.connect();

const published = await Promise.all(
  Array.from({ length: 100 }, (_, number) => client.sendCommand(['PUBLISH', topic, `m${number}`])),
);
const refused = await client.sendCommand(['NOSUCH']).catch((error) => error.message);
const together = await client.multi().publish(`${topic}-together`, 'a').publish(`${topic}-together`, 'b').exec();
// SUBSCRIBE is answered with the first message. A message that follows an ACK is one answer more than questions,
// which this client reports as an error: so take one message, and leave.
const first = await client.sendCommand(['SUBSCRIBE', `${topic}-one`]);
const settled = await client.sendCommand(['ACK']);
const reset = await client.sendCommand(['RESET']);

console.log(JSON.stringify({
  ping: await client.ping(),
  publish: await client.publish(`${topic}-more`, 'by the method'),
  published,
  topics: await client.sendCommand(['TOPICS']),
  refused,
  together,
  first,
  settled,
  reset,
}));
client.destroy();
