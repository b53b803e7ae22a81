// node-redis: goes through the scenario.
import { once } from 'node:events';
import { createClient } from 'redis';

const [port, orders, protocol] = process.argv.slice(2);
const [billing, audit] = [`${orders}-billing`, `${orders}-audit`];
const say = (...words) => console.log(words.join(' '));
const refusal = (act) => act.then((replies) => `nothing was refused: ${replies}`, (error) => error.message);

const client = createClient({
  RESP: Number(protocol),
  socket: { host: '127.0.0.1', port: Number(port), reconnectStrategy: 100 },
});
client.on('error', () => {}); // it connects again by itself
await client.connect();

await client.ping();
say('publish', await client.publish(orders, 'first'));
const payloads = Array.from({ length: 9 }, (_, number) => `m${number}`);
say('pipeline', ...await Promise.all(payloads.map((payload) => client.publish(orders, payload))));
const received = await client.sendCommand(['RECEIVE', orders, 'COUNT', '10']);
say('receive', ...received.map((message) => message[1]));
say('ack', ...await client.sendCommand(['ACK', orders, ...received.map((message) => message[0])]));

await client.publish(orders, 'second');
// docs:
const [[receipt, payload]] = await client.sendCommand(['RECEIVE', orders, 'WAIT', '20']);
const replies = await client.multi()
  .publish(billing, payload)
  .publish(audit, payload)
  .addCommand(['ACK', orders, receipt])
  .exec();
// docs end
say('exec', ...replies);
say('unknown', await refusal(client.multi().publish(billing, 'never').addCommand(['NOSUCH']).exec()));
say('refused', await refusal(client.multi().publish(billing, 'never').addCommand(['ACK', orders, receipt]).exec()));
await client.sendCommand(['MULTI']); // the client's own transactions are sent only when they are complete
await client.publish(billing, 'never');
say('discard', await client.sendCommand(['DISCARD']));

await client.publish(orders, 'third');
say('restart');
await once(process.stdin, 'data');
process.stdin.unref();
const receive = () => client.sendCommand(['RECEIVE', orders, 'WAIT', '20']).catch(receive); // lost with its connection
const [[next, text]] = await receive();
say('again', text, await client.sendCommand(['ACK', orders, next]), await client.publish(orders, 'last'));
client.destroy();
