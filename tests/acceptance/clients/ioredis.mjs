// ioredis: connects, publishes. Prints what it got, as JSON.
// It cannot consume: it takes every answer to SUBSCRIBE for that of Redis' pub/sub and throws on anything else.
import { Redis } from 'ioredis';

const [port, topic] = process.argv.slice(2);
const client = new Redis({ host: '127.0.0.1', port: Number(port), connectionName: 'tester', retryStrategy: null });
client.on('error', (error) => {
  console.error(error);
  process.exitCode = 1;
});

const pipeline = client.pipeline();
for (let number = 0; number < 100; number += 1) {
  pipeline.publish(topic, `m${number}`);
}
const published = (await pipeline.exec()).map(([error, reply]) => error ?? reply);
const refused = await client.call('NOSUCH').catch((error) => error.message);
const together = await client.multi().publish(`${topic}-together`, 'a').publish(`${topic}-together`, 'b').exec();

console.log(JSON.stringify({
  ping: await client.ping(),
  publish: await client.publish(`${topic}-more`, 'by the method'),
  published,
  topics: await client.call('TOPICS'),
  refused,
  together: together.map(([error, reply]) => error ?? reply),
}));
client.disconnect();
