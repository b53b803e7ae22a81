// The log of a topic: the messages of a partition in publish order, from any offset or time.

import * as format from "../lib/format.js";
import { useGet } from "../lib/models.js";
import { setQuery } from "../lib/navigation.js";
import { bytesOf, textOf } from "../lib/payload.js";
import { topicUrl } from "../lib/routes.js";
import { brokerNow, route } from "../lib/store.js";
import { html, useState, useStore } from "../lib/ui.js";
import { Name, Time } from "../parts/marks.js";
import { Card, Denied, Empty, ErrorLine } from "../parts/states.js";
import { Pager, Table } from "../parts/table.js";

const COUNT = 50;
const SHOWN_CHARACTERS = 200;

export function Log({ topic, model, rights }) {
  const { query } = useStore(route);
  const partitions = (model.partitions ?? []).map(({ partition }) => partition);
  const partition = query.partition ?? partitions[0] ?? "0";
  const mayRead = rights.has("consume");
  const { answer, error, isLoading, reload } = useGet(
    ["topics", topic, "partitions", partition],
    { offset: query.offset, time: query.offset === undefined ? query.time : null, count: COUNT, bytes: 262144 },
    mayRead,
  );
  if (!mayRead) return html`<div class="card"><${Denied} right="consume" topic=${topic} /></div>`;
  return html`<${Position} partitions=${partitions} partition=${partition} query=${query} />
    <${Card} label="Log" error=${error} isLoading=${isLoading && !answer} retry=${reload} topic=${topic}>
      ${answer && html`<${Page} topic=${topic} answer=${answer} partition=${partition} />`}<//>`;
}

function Position({ partitions, partition, query }) {
  const [start, setStart] = useState(query.offset ?? query.time ?? "");
  const [error, setError] = useState(null);
  const submit = (event) => {
    event.preventDefault();
    const text = start.trim();
    const isOffset = /^[0-9]{1,15}$/.test(text);
    if (text && !isOffset && Number.isNaN(Date.parse(text)))
      setError(new Error("invalid start; must be an offset, or a time such as 2026-12-01T08:00:00Z"));
    else {
      setError(null);
      setQuery(isOffset ? { offset: text, time: null } : { offset: null, time: text });
    }
  };
  return html`<form class="bar" onSubmit=${submit}>
    <label class="inline">Partition${" "}
      <select onChange=${(event) => setQuery({ partition: event.target.value, offset: null })}>
        ${partitions.map((name) => html`<option value=${name} selected=${name === partition}>${name}</option>`)}
      </select></label>
    <input class="grow" type="search" aria-label="Begin at"
      placeholder="Offset or time: 17, 2026-12-01T08:00:00Z" value=${start}
          spellcheck="false" onInput=${(event) => setStart(event.target.value)} />
    <button class="btn">Go</button><${ErrorLine} error=${error} /></form>`;
}

function Page({ topic, answer, partition }) {
  const { messages, earliest, end, next, missed } = answer;
  const nowMs = brokerNow();
  const columns = [
    {
      label: "Id",
      className: "m",
      cell: (row) => html`<a href=${topicUrl(topic, "messages", {}, row.id)}>${row.id}</a>`,
    },
    { label: "Published", cell: (row) => html`<${Time} ms=${row.publishedAtMs} nowMs=${nowMs} />` },
    {
      label: "Key",
      hide: "phone",
      className: "m",
      cell: (row) => (row.key === undefined ? format.UNKNOWN : html`<${Name}>${row.key}<//>`),
    },
    { label: "Size", isNumber: true, hide: "phone", cell: (row) => format.bytes(bytesOf(row.msg).length) },
    { label: "Payload", className: "payload", cell: (row) => html`<span dir="auto">${lineOf(row.msg)}</span>` },
  ];
  if (!messages.length) {
    return html`<${Empty} title=${earliest === end ? "Nothing is stored in this partition" : "The end of the log"}>
      ${
        earliest === end
          ? "Settled messages are stored only if the topic retains them."
          : html`The log ends at offset ${format.exact(end)}.`
      }<//>`;
  }
  const first = messages[0].id.split("-").pop();
  const begin = (offset) => setQuery({ offset, time: null });
  const [from, to, oldest, newest] = [Number(first), next - 1, earliest, end - 1].map(format.exact);
  const shown = `Offsets ${from}–${to}; stored: ${oldest}–${newest}.`;
  return html`${
    missed > 0 &&
    html`<p class="pad s2">${format.plural(missed, "message")} before ${messages[0].id} ${
      missed === 1 ? "is" : "are"
    } no longer stored.</p>`
  }
    <${Table} caption=${`Log of partition ${partition}`} columns=${columns} rows=${messages} keyOf=${({ id }) => id} />
    <${Pager} text=${`${shown} Reading settles nothing.`}
      onPrevious=${Number(first) > earliest && (() => begin(Math.max(earliest, Number(first) - COUNT)))}
      onNext=${next < end && (() => begin(next))} />`;
}

function lineOf(base64) {
  const bytes = bytesOf(base64);
  const text = textOf(bytes);
  if (text === null) return Array.from(bytes.subarray(0, 64), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  return text.slice(0, SHOWN_CHARACTERS).replace(/\s+/g, " ");
}
