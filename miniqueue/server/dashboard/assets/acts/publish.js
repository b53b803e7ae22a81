// Publish a test message.

import { request } from "../lib/api.js";
import { apiUrl, topicUrl } from "../lib/routes.js";
import { html, useState } from "../lib/ui.js";
import { go } from "../lib/navigation.js";
import { base64Of, bytesOf } from "../lib/payload.js";
import { Ask } from "../parts/dialog.js";
import { Name } from "../parts/marks.js";
import { say } from "../parts/toast.js";
import { Field, isNumber, Select, Text } from "./fields.js";

const PRIORITIES = { "": "normal", high: "high", low: "low" };

export function Publish({ topic }) {
  const [payload, setPayload] = useState("");
  const [isBase64, setIsBase64] = useState(false);
  const [options, setOptions] = useState({ key: "", delay: "", ttl: "", priority: "", headers: "" });
  const [isMore, setIsMore] = useState(false);
  const set = (name) => (value) => setOptions((before) => ({ ...before, [name]: value }));
  const run = () => publish(topic, isBase64 ? decode(payload) : payload, options);
  const done = (id) =>
    say(
      `A message was published to ${topic}${id ? ` as ${id}` : ""}.`,
      id ? { label: "Show it", run: () => go(topicUrl(topic, "messages", {}, id)) } : null,
    );
  return html`<${Ask} title="Publish a message" verb="Publish" run=${run} onDone=${done}
      isReady=${isNumber(options.delay) && isNumber(options.ttl)}>
    <p class="s2">To <b><${Name}>${topic}<//></b>. Consumers of the topic receive it like any other message.</p>
    <${Text} label="Payload" rows="6" value=${payload} onChange=${setPayload} />
    <label class="check"><input type="checkbox" checked=${isBase64} onChange=${() => setIsBase64(!isBase64)} />
      The payload is base64</label>
    <${Field} label="Key" value=${options.key} onChange=${set("key")}
        hint="Optional. Messages with the same key are in the same partition." />
    ${
      isMore
        ? html`<div class="pair">
            <${Field} label="Delay, in seconds" value=${options.delay} onChange=${set("delay")} inputmode="decimal" />
            <${Field} label="Expires after, in seconds" value=${options.ttl} onChange=${set("ttl")}
              inputmode="decimal" /></div>
          <${Select} label="Priority" value=${options.priority} onChange=${set("priority")} choices=${PRIORITIES} />
          <${Text} label="Headers" rows="3" value=${options.headers} onChange=${set("headers")}
            hint="One per line, such as source: checkout" />`
        : html`<p><button type="button" class="link" onClick=${() => setIsMore(true)}>
            Delay, expiry, priority, headers …</button></p>`
    }
  <//>`;
}

function decode(text) {
  try {
    return bytesOf(text.replace(/\s/g, ""));
  } catch {
    throw new Error("invalid payload: not base64");
  }
}

/** Publish with the options that are set, as one JSON line: it can have any header. */
async function publish(topic, payload, { key, delay, ttl, priority, headers }) {
  const line = { msg: base64Of(typeof payload === "string" ? new TextEncoder().encode(payload) : payload) };
  if (key) line.key = key;
  if (delay) line.delay = Number(delay);
  if (ttl) line.ttl = Number(ttl);
  if (priority) line.priority = priority;
  const pairs = headers.split("\n").filter((text) => text.trim());
  if (pairs.length) line.headers = Object.fromEntries(pairs.map(headerOf));
  const answer = await request("POST", apiUrl(["publish", topic]), {
    body: `${JSON.stringify(line)}\n`,
    isRaw: true,
    headers: { "Content-Type": "application/x-ndjson" },
  });
  if (answer?.error) throw new Error(`${answer.error} (${answer.code})`);
  return answer?.id;
}

function headerOf(text) {
  const at = text.indexOf(":");
  if (at < 1) throw new Error(`invalid header: ${text}; must be name: value`);
  return [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}
