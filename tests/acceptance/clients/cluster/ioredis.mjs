// ioredis as a client of Redis Cluster: finds the owner of each topic, publishes, receives. Prints what it got of each,
// as a line of JSON; again for each line that it reads, as what happens meanwhile can cost it its connections.
import readline from 'node:readline';
import { Cluster } from 'ioredis';

const [port, ...topics] = process.argv.slice(2);
const cluster = new Cluster([{ host: '127.0.0.1', port: Number(port) }], { redisOptions: { maxRetriesPerRequest: 0 } });
cluster.on('error', (error) => console.error(error));

async function useTopic(topic) {
  const published = await Promise.all([1, 2, 3].map((number) => cluster.call('PUB', topic, `m${number}`, 'KEY', 'k')));
  const received = await cluster.call('RECEIVE', topic, 'COUNT', '10');
  const settled = await cluster.call('ACK', topic, ...received.map(([receipt]) => receipt));
  return { published, settled: [settled].flat(), payloads: received.map((message) => message[1]) };
}

console.log(JSON.stringify(await Promise.all(topics.map(useTopic))));
for await (const line of readline.createInterface({ input: process.stdin })) {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    try {
      const used = line.split(' ').map(useTopic);
      await Promise.allSettled(used); // what one attempt still does would take messages of the next one
      console.log(JSON.stringify(await Promise.all(used)));
      break;
    } catch (error) {
      console.error(error);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
cluster.disconnect();
