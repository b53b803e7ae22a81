// node-redis as a client of Redis Cluster: finds the owner of each topic, publishes, receives. Prints what it got of
// each, as a line of JSON; again for each line that it reads, as what happens meanwhile can cost it its connections.
import readline from 'node:readline';
import { createCluster } from 'redis';

const [port, ...topics] = process.argv.slice(2);
const cluster = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] });
cluster.on('error', (error) => console.error(error));
cluster.on('node-error', (error) => console.error(error));
await cluster.connect();

async function useTopic(topic) {
  const send = (...words) => cluster.sendCommand(topic, false, words);
  const published = await Promise.all([1, 2, 3].map((number) => send('PUB', topic, `m${number}`, 'KEY', 'k')));
  const received = await send('RECEIVE', topic, 'COUNT', '10');
  const settled = await send('ACK', topic, ...received.map(([receipt]) => receipt));
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
await cluster.close();
