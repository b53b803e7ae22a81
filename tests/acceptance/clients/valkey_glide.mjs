// valkey-glide: connects, publishes, receives with leases, settles by receipt. Prints what it got, as JSON.
import { Batch, GlideClient, GlideClientConfiguration, Logger, ProtocolVersion } from '@valkey/valkey-glide';

const [port, topic, version] = process.argv.slice(2);
Logger.setLoggerConfig('off');

const protocol = version === '3' ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2;
const { Exact, Pattern } = GlideClientConfiguration.PubSubChannelModes;
// It can subscribe as it connects, in version 3 only, and goes on with commands on the same connection.
const channels = { [Exact]: new Set(['__Booksleeve_MasterChanged']), [Pattern]: new Set(['__keyspace@0__:*']) };
const client = await GlideClient.createClient({
  addresses: [{ host: '127.0.0.1', port: Number(port) }],
  protocol,
  clientName: 'tester',
  requestTimeout: 20_000,
  ...(version === '3' && { pubsubSubscriptions: { channelsAndPatterns: channels } }),
});
const call = (...words) => client.customCommand(words);
const batch = (isAtomic, name, count) => Array.from({ length: count }).reduce(
  (commands, _, number) => commands.customCommand(['PUBLISH', name, `m${number}`]),
  new Batch(isAtomic),
);

const published = await client.exec(batch(false, topic, 100), true);
const refused = await call('NOSUCH').catch((error) => error.message);
const together = await client.exec(batch(true, `${topic}-together`, 2), true);
const received = await call('RECEIVE', topic, 'COUNT', '3', 'LEASE', '60');
const settled = await call('ACK', topic, ...received.map(([receipt]) => receipt));

console.log(JSON.stringify({
  ping: await client.ping(),
  publish: await call('PUBLISH', `${topic}-more`, 'last'),
  published,
  topics: await call('TOPICS'),
  refused,
  together,
  payloads: received.map(([, payload]) => payload),
  settled,
  waited: await call('RECEIVE', `${topic}-none`, 'WAIT', '0.1'),
}));
client.close();
