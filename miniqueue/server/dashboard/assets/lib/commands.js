// The commands that show one message, or act on it, for the shell of whoever reads the page.

/** The port that the clients use if none is named. */
const USUAL_PORT = 6379;
const OWN_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** Quote a word for a shell of Unix. */
export const quoted = (word) => (/^[A-Za-z0-9_.,:/@%+=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** Lines for a message of a topic; `broker` is the host as in a URL, the port of RESP, and whether it requires TLS. */
export function commandsOf(topic, message, { host, respPort, respTls }) {
  const name = quoted(topic);
  const isHere = OWN_HOSTS.has(host);
  const isUsual = respPort === USUAL_PORT;
  const url = `${respTls ? "rediss" : "redis"}://${isHere ? "localhost" : host}:${respPort}`;
  const trace = ["miniqueue trace", name, message.id, !(isHere && isUsual && !respTls) && `--url ${url}`];
  const client = [
    "redis-cli",
    !isHere && `-h ${host.replace(/^\[|\]$/g, "")}`,
    !isUsual && `-p ${respPort}`,
    respTls && "--tls",
  ];
  const acts = [`PEEK ${name} ID ${message.id}`, `TRACE ${name} ${message.id}`];
  if (message.origin && message.state === "ready") acts.push(`MESSAGE REDRIVE ${name} ${message.id}`);
  if (message.state === "delayed") acts.push(`MESSAGE DUE ${name} ${message.id}`);
  return [trace, ...acts.map((act) => [...client, act])].map((words) => words.filter(Boolean).join(" "));
}
