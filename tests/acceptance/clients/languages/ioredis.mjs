// ioredis: goes through the scenario.
import { once } from 'node:events';
import { Redis } from 'ioredis';

const [port, orders] = process.argv.slice(2);
const [billing, audit] = [`${orders}-billing`, `${orders}-audit`];
const say = (...words) => console.log(words.join(' '));
const results = (replies) => replies.map(([error, reply]) => error?.message ?? reply);
const refusal = (act) => act.then((replies) => `nothing was refused: ${results(replies)}`, (error) => error.message);

const client = new Redis({
  host: '127.0.0.1',
  port: Number(port),
  retryStrategy: () => 100,
  maxRetriesPerRequest: null,
});
client.on('error', () => {}); // it connects again by itself

await client.ping();
say('publish', await client.publish(orders, 'first'));
const pipeline = client.pipeline();
for (let number = 0; number < 9; number += 1) {
  pipeline.publish(orders, `m${number}`);
}
say('pipeline', ...results(await pipeline.exec()));
const received = await client.call('RECEIVE', orders, 'COUNT', 10);
say('receive', ...received.map((message) => message[1]));
say('ack', ...await client.call('ACK', orders, ...received.map((message) => message[0])));

await client.publish(orders, 'second');
// docs:
const [[receipt, payload]] = await client.call('RECEIVE', orders, 'WAIT', 20);
const replies = await client.multi()
  .publish(billing, payload)
  .publish(audit, payload)
  .call('ACK', orders, receipt)
  .exec();
// docs end
say('exec', ...results(replies));
say('unknown', await refusal(client.multi().publish(billing, 'never').call('NOSUCH').exec()));
say('refused', await refusal(client.multi().publish(billing, 'never').call('ACK', orders, receipt).exec()));
await client.multi({ pipeline: false });
await client.publish(billing, 'never');
say('discard', await client.discard());

await client.publish(orders, 'third');
say('restart');
await once(process.stdin, 'data');
process.stdin.unref();
const [[next, text]] = await client.call('RECEIVE', orders, 'WAIT', 20);
say('again', text, await client.call('ACK', orders, next), await client.publish(orders, 'last'));
client.disconnect();
