// The messages of a topic by state. Viewing changes nothing: no state, count, or position.

import * as format from "../lib/format.js";
import { get } from "../lib/api.js";
import { keepPage, listView } from "../lib/message_list.js";
import { useRead } from "../lib/models.js";
import { go, previousPage, setQuery } from "../lib/navigation.js";
import { queryString, topicUrl } from "../lib/routes.js";
import { preferences, route } from "../lib/store.js";
import { html, useEffect, useState, useStore } from "../lib/ui.js";
import { DropDead, Redrive } from "../acts/redrive.js";
import { More, openDialog } from "../parts/dialog.js";
import { Meter, Name, Time } from "../parts/marks.js";
import { Card, Empty, ErrorLine, Failure, Loading } from "../parts/states.js";
import { Choice, Pager, Table } from "../parts/table.js";
import { save } from "../parts/viewer.js";
import { messageColumns, reasonMeaning, shownReason } from "./message_columns.js";

const STATES = { ready: "Ready", leased: "Leased", delayed: "Delayed", dead: "Dead letters" };
const DOWNLOADED = 1000;

export function Messages({ topic, model, rights }) {
  const { query } = useStore(route);
  const state = STATES[query.state] ? query.state : "ready";
  const { group = "", after = "", reason = "", key = "", contains = "" } = query;
  const { rows: count } = useStore(preferences);
  const view = listView(topic, { state, group, key, contains, reason, after }, count);
  const answer = useRead(view);
  useEffect(() => {
    if (answer.answer) keepPage(view, after, answer.answer);
  }, [answer.answer]);
  const groups = model.groups ?? [];
  const states = Object.entries(STATES).map(([name, text]) => ({
    text,
    number: format.count(model[name]),
    href: topicUrl(topic, "messages", { state: name === "ready" ? null : name, group: name === "dead" ? null
      : group }),
    isCurrent: name === state,
  }));
  return html`<div class="bar"><${Choice} label="State of the messages" items=${states} />
      ${
        groups.length > 1 &&
        state !== "dead" &&
        html`<select aria-label="Group" onChange=${(event) => setQuery({ group: event.target.value, after: null })}>
          <option value="" selected=${group === ""}>Default group</option>
            ${groups.map(
              ({ group: name }) => html`<option value=${name} selected=${name === group}>${name}</option>`,
            )}</select>`
      }
      <${GoTo} topic=${topic} /></div>
    ${state === "dead" && html`<${Reasons} topic=${topic} model=${model} rights=${rights} />`}
    <${Filter} key=${`${key} ${contains}`} values=${{ key, contains }} isShown=${state !== "leased"} />
    <div class="card">${
      answer.answer
        ? html`<${Rows} topic=${topic} model=${model} state=${state} answer=${answer} after=${after}
            filter=${{ reason, key, contains, group }} />`
        : answer.error
          ? html`<${Failure} error=${answer.error} topic=${topic} retry=${answer.reload} />`
          : html`<${Loading} rows=${8} />`
    }</div>`;
}

function GoTo({ topic }) {
  const [id, setId] = useState("");
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    if (!id.trim()) return;
    try {
      await get(["topics", topic, "messages", id.trim()]);
      go(topicUrl(topic, "messages", {}, id.trim()));
    } catch (failure) {
      setError(failure);
    }
  };
  return html`<form class="grow goto" onSubmit=${submit}>
    <input type="search" aria-label="Message id" placeholder="Go to an id, such as 3-48213" value=${id}
        spellcheck="false" aria-describedby=${error ? "goto-error" : undefined} onInput=${(event) => {
          setId(event.target.value);
          setError(null);
        }} /><${ErrorLine} error=${error} id="goto-error" /></form>`;
}

function Filter({ values, isShown }) {
  const [key, setKey] = useState(values.key);
  const [contains, setContains] = useState(values.contains);
  if (!isShown) return null;
  const submit = (event) => {
    event.preventDefault();
    setQuery({ key, contains, after: null });
  };
  return html`<form class="bar filter" role="search" aria-label="Search messages" onSubmit=${submit}>
    <input type="search" aria-label="Key" placeholder="Key" value=${key}
        dir="auto" onInput=${(event) => setKey(event.target.value)} />
    <input type="search" class="grow" aria-label="The payload contains" placeholder="The payload contains"
      value=${contains} dir="auto" onInput=${(event) => setContains(event.target.value)} />
    <button class="btn">Search</button>
      ${
        (values.key || values.contains) &&
        html`<a href=${
          location.pathname +
          queryString({
            ...Object.fromEntries(new URLSearchParams(location.search)),
            key: null,
            contains: null,
            after: null,
          })
        }>All messages</a>`
      }</form>`;
}

function Rows({ topic, model, state, answer, after, filter }) {
  const { zone } = useStore(preferences);
  const { messages, next, nowMs } = answer.answer;
  const isSearch = Boolean(filter.reason || filter.key || filter.contains);
  if (!messages.length && !next) {
    const isPage = after !== "";
    return html`<${Nothing} topic=${topic} model=${model} state=${state} isSearch=${isSearch} isPage=${isPage} />`;
  }
  const order = {
    ready: "in the order of delivery",
    dead: "in the order of delivery",
    leased: "by id",
    delayed: "by due time",
  }[state];
  const download = () =>
    save(
      `${messages.map((message) => JSON.stringify(message)).join("\n")}\n`,
      `${topic}-${state}.jsonl`,
      "application/x-ndjson",
    );
  const columns = messageColumns({
    topic,
    query: { ...filter, state, after },
    nowMs,
    deadLetterTopic: model.deadLetterTopic,
  });
  return html`<${Table} caption=${`${STATES[state]} messages`} columns=${columns} rows=${messages}
      keyOf=${({ id }) => id} />
    ${
      !messages.length &&
      html`<p class="pad s2">No message on this page meets the conditions; the search continues on the next page.</p>`
    }
    <${Pager} text=${html`${format.plural(messages.length, "message")}, ${order}, as of ${format.clock(
      nowMs,
      zone,
    )}. Viewing changes nothing.`} onPrevious=${after !== "" && previousPage}
          onNext=${next && (() => setQuery({ after: next }, { isNextPage: true }))}>
      <button class="btn bare" onClick=${answer.reload}>Refresh</button>
        ${messages.length > 0 && html`<button class="btn bare" onClick=${download}>Download the list</button>`}<//>`;
}

function Nothing({ topic, model, state, isSearch, isPage }) {
  if (isSearch) return html`<${Empty} title="No message meets the conditions">Leased messages are not searched.<//>`;
  if (isPage)
    return html`<${Empty} title="The end of the list">
      <a href=${topicUrl(topic, "messages", { state: state === "ready" ? null : state })}>First page</a><//>`;
  if (state === "dead") {
    const limit = model.settings?.max_deliveries;
    const noLimit = "The topic has no such limit: a message that fails is redelivered without end.";
    return html`<${Empty} title="No dead letters">
      A message comes here when it is returned after ${limit || "max_deliveries"} deliveries,
      or when a consumer rejects it. ${!limit && noLimit}<//>`;
  }
  const why = {
    ready: "All messages are leased, delayed, or acknowledged.",
    leased: model.consumers ? "The consumers wait for messages." : "No consumer is connected.",
    delayed: "A message is here after a publish with a delay, or a return with one.",
  }[state];
  return html`<${Empty} title=${`No ${STATES[state].toLowerCase()} messages`}>${why}<//>`;
}

function Reasons({ topic, model, rights }) {
  const { query } = useStore(route);
  const { answer, error, isLoading, reload: reloadReasons } = useRead(`dead${queryString({ topic })}`);
  const ask = (dialog) => () => openDialog(dialog);
  const reasons = answer?.reasons ?? [];
  if (answer && !reasons.length) return null;
  const high = Math.max(1, ...reasons.map(({ count }) => count));
  const of = format.isKnown(answer?.total) ? ` of ${format.exact(answer.total)}` : "";
  const columns = [
    {
      label: "Reason",
      cell: (row) =>
        html`<a href=${topicUrl(topic, "messages", { state: "dead", reason: row.reason })}
            aria-current=${row.reason === query.reason ? "true" : undefined}>
              <${Name}>${shownReason(row.reason)}<//></a>`,
    },
    { label: "Dead letters", isNumber: true, cell: (row) => format.count(row.count) },
    {
      label: "Share",
      isLabelHidden: true,
      hide: "phone",
      className: "meter-cell",
      cell: (row) =>
        html`<${Meter} part=${row.count / high}
            label=${`share: ${Math.round((100 * row.count) / (answer.examined || 1))} %`} level="k2" />`,
    },
    {
      label: "First and last",
      hide: "phone",
      cell: (row) =>
        html`<${Time} ms=${row.firstMs} nowMs=${model.nowMs} /> – <${Time} ms=${row.lastMs} nowMs=${model.nowMs} />`,
    },
    { label: "Meaning", hide: "medium", cell: (row) => html`<span class="s3">${reasonMeaning(row.reason)}</span>` },
    rights.has("admin") && {
      label: "Acts",
      isLabelHidden: true,
      className: "acts-cell",
      cell: (row) =>
        html`<${More} label=${`Acts on dead letters: ${shownReason(row.reason)}`} items=${[
          [
            "Redrive…",
            ask(
              () =>
                html`<${Redrive} topic=${topic} number=${row.count} reason=${row.reason}
                    returnedPerSecond=${model.returnedPerSecond} />`,
            ),
          ],
          ["Delete…", ask(() => html`<${DropDead} topic=${topic} number=${row.count} reason=${row.reason} />`), true],
        ]} />`,
    },
  ].filter(Boolean);
  const actions = html`${
    query.reason && html`<a href=${topicUrl(topic, "messages", { state: "dead" })}>All reasons</a>`
  }
    <a href=${topicUrl(model.deadLetterTopic)}>In <${Name}>${model.deadLetterTopic}<//></a>
    <button class="btn bare" onClick=${() => download(topic, query.reason)}>Download</button>
    ${
      rights.has("admin") &&
      model.dead > 0 &&
      html`<${More} label="Acts on all dead letters"
        items=${[["Delete all…", ask(() => html`<${DropDead} topic=${topic} number=${model.dead} />`), true]]} />`
    }`;
  return html`<${Card} title="Why they are dead letters" id="h-reasons"
    note=${answer?.isPart ? `the first ${format.exact(answer.examined)}${of}` : ""}
        actions=${actions} error=${error} isLoading=${isLoading && !answer} retry=${reloadReasons}>
    ${
      answer &&
      html`<${Table} caption="Reasons of dead letters" columns=${columns} rows=${reasons}
        keyOf=${(row) => row.reason} />`
    }<//>`;
}

/** Save the dead letters as JSON lines, with their payloads in base64, as the API returns them. */
async function download(topic, reason) {
  const lines = [];
  let after;
  while (lines.length < DOWNLOADED * 10) {
    const query = { state: "dead", count: DOWNLOADED, after, ...(reason && { reason }) };
    const { messages, next } = await get(["topics", topic, reason ? "search" : "messages"], query);
    lines.push(...messages.map((message) => JSON.stringify(message)));
    after = reason ? next : messages[messages.length - 1]?.id;
    if (!after || (!reason && messages.length === 0)) break;
  }
  save(`${lines.join("\n")}\n`, `${topic}-dead-letters.jsonl`, "application/x-ndjson");
}
