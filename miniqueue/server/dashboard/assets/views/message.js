// One message: its payload and its history on the left; where it is, headers, and commands on the right.

import { commandsOf } from "../lib/commands.js";
import * as format from "../lib/format.js";
import { listOf, listUrl, listView, messageUrl, neighborsOf, pageBefore } from "../lib/message_list.js";
import { useGet, usePage } from "../lib/models.js";
import { go } from "../lib/navigation.js";
import { bytesOf } from "../lib/payload.js";
import { topicUrl, viewUrl } from "../lib/routes.js";
import { rightsOn } from "../lib/rights.js";
import { brokerNow, preferences, route, session } from "../lib/store.js";
import { html, useMemo, useStore } from "../lib/ui.js";
import { DeleteMessage, MessageAct } from "../acts/message_acts.js";
import { SwitchOnTrace } from "../acts/topic_acts.js";
import { Commands, CopyButton } from "../parts/copy.js";
import { More, openDialog } from "../parts/dialog.js";
import { Icon, Name, Time } from "../parts/marks.js";
import { TitleBar } from "../parts/shell.js";
import { Card, Empty, Failure, Loading } from "../parts/states.js";
import { Timeline } from "../parts/timeline.js";
import { Viewer } from "../parts/viewer.js";
import { reasonOf } from "./message_columns.js";

export function Message() {
  const { topic, id, query } = useStore(route);
  const list = listOf(topic, query);
  const { answer: message, error, reload } = useGet(["topics", topic, "messages", id], { group: query.group });
  const rights = rightsOn(useStore(session), topic);
  const path = [
    ["Topics", viewUrl("topics")],
    [topic, topicUrl(topic)],
    ["messages", list ? listUrl(list.topic, list.query) : listUrl(topic, { state: message?.state })],
  ];
  const pill = message && html`<${StatePill} message=${message} />`;
  const isGone = error?.code === "NOMESSAGE";
  return html`<${TitleBar} title=${`Message ${id}`} documentTitle=${`${id} of ${topic}`} path=${path} here=${id}
      isLiveShown=${false} aside=${list && html`<${Neighbors} place=${topic} id=${id} ...${list} />`}
      pill=${html`${pill}<${CopyButton} label="Copy the id" text=${id} isBare=${true} isKey=${true} />`}
      actions=${
        message &&
        html`<${Actions} topic=${topic} message=${message} rights=${rights} group=${query.group}
          list=${list} />`
      } />
    ${
      isGone
        ? html`<${Gone} topic=${topic} id=${id} />`
        : error && !message
          ? html`<div class="card"><${Failure} error=${error} topic=${topic} retry=${reload} /></div>`
          : !message
            ? html`<div class="card"><${Loading} rows=${8} /></div>`
            : html`<${Content} topic=${topic} message=${message} as=${query.as} />`
    }`;
}

/** The messages before and after this one in the list that it was reached from. */
function Neighbors({ topic, query, place, id }) {
  const { rows: count } = useStore(preferences);
  const view = listView(topic, query, count);
  const page = usePage(view, query.after);
  const { previous, next, isLast } = neighborsOf(page, id);
  const end = isLast && page.next ? page.next : null;
  const following = usePage(end === null ? null : listView(topic, { ...query, after: end }, count), end);
  const before = previous === null && query.after ? pageBefore(topic, query, count) : null;
  const urlOf = (after, other) => other && messageUrl(topic, { ...query, after }, other, place);
  const previousUrl = previous ? urlOf(query.after, previous) : urlOf(before?.after, before?.id);
  const nextUrl = next ? urlOf(query.after, next) : urlOf(end, following?.messages[0]?.id);
  return html`<${Neighbor} name="previous" url=${previousUrl} /><${Neighbor} name="next" url=${nextUrl} />`;
}

function Neighbor({ name, url }) {
  const [word, icon] = name === "next" ? ["Next", "right"] : ["Previous", "left"];
  return html`<button class="btn" data-key=${name} aria-label=${`${word} message`} title=${`${word} message`}
      disabled=${!url} onClick=${() => go(url)}><${Icon} name=${icon} /></button>`;
}

function StatePill({ message }) {
  if (message.origin)
    return html`<span class="pill crit"><svg aria-hidden="true"><use href="#i-dead" /></svg>Dead letter</span>`;
  return html`<span class="pill">${message.state}</span>`;
}

function Actions({ topic, message, rights, group, list }) {
  if (!rights.has("admin")) return null;
  const toList = () => go(list ? listUrl(list.topic, list.query) : topicUrl(topic, "messages"));
  const ask = (name, onEnd) => () =>
    openDialog(
      () => html`<${MessageAct} name=${name} topic=${topic} id=${message.id} group=${group} onEnd=${onEnd} />`,
    );
  const isLeased = message.state === "leased";
  return html`${
    message.origin &&
    message.state === "ready" &&
    html`<button class="btn pri" onClick=${ask("redrive", toList)}>Redrive…</button>`
  }
    ${message.state === "delayed" && html`<button class="btn" onClick=${ask("due", toList)}>Make due now…</button>`}
    ${
      message.state === "ready" &&
      !message.origin &&
      html`<button class="btn" onClick=${ask("front")}>Move to the front…</button>`
    }
    ${
      !isLeased &&
      html`<${More} label="More acts on the message" items=${[
        message.state === "ready" && message.origin && ["Move to the front…", ask("front")],
        [
          "Delete…",
          () => openDialog(() => html`<${DeleteMessage} topic=${topic} id=${message.id} onEnd=${toList} />`),
          true,
        ],
      ]} />`
    }`;
}

/** A message that is settled: its trace may still tell what happened. */
function Gone({ topic, id }) {
  const { answer, error } = useGet(["topics", topic, "messages", id, "trace"]);
  const untraced = html`<${Card} title="History" id="h-history"><${Untraced} topic=${topic} /><//>`;
  return html`<div class="card"><${Empty} title="The message does not wait in this topic">
      It was acknowledged, removed, or moved, or it never existed.<//></div>
    ${error ? untraced : answer && html`<${Timeline} steps=${answer.trace} />`}`;
}

function Content({ topic, message, as }) {
  const { respPort, respTls } = useStore(session);
  const payload = useMemo(() => bytesOf(message.msg), [message.msg]);
  const trace = useGet(["topics", topic, "messages", message.id, "trace"]);
  return html`<div class="row wide"><div class="row"><${Viewer} payload=${payload} as=${as}
      fileName=${`${topic}-${message.id}`.replace(/[^A-Za-z0-9._-]/g, "_")} />
      <${History} topic=${topic} message=${message} trace=${trace} /></div>
    <div class="row"><${Facts} topic=${topic} message=${message} /><${Headers} headers=${message.headers ?? []} />
      <${Commands} lines=${commandsOf(topic, message, { host: location.hostname, respPort, respTls })} /></div></div>`;
}

/** Steps that are known of every message, and of every dead letter. */
const UNTRACED = new Set(["committed", "arrived"]);

function History({ topic, message, trace }) {
  if (!trace.error && trace.answer?.trace?.some(({ event }) => !UNTRACED.has(event)))
    return html`<${Timeline} steps=${trace.answer.trace} />`;
  const { origin } = message;
  const returns = returnsText(origin ?? message);
  return html`<${Card} title="History" id="h-history">
    <p class="pad s2">
      ${
        origin
          ? html`From <${Name}>${origin.topic}<//>: <${Name}>${reasonOf(message)}<//>`
          : `Delivered ${format.plural(message.deliveries, "time")}`
      }${returns && `; returned by ${returns}`}.</p>
    <${Untraced} topic=${origin?.topic ?? topic} /><//>`;
}

/** Why there is no history, and a button that changes it for what follows. */
function Untraced({ topic }) {
  const settings = useGet(["topics", topic]).answer?.settings;
  const mayAdmin = rightsOn(useStore(session), topic).has("admin");
  if (!settings) return null;
  const link = html`<a href=${topicUrl(topic, "settings")}>trace</a>`;
  if (settings.trace) {
    return html`<p class="pad s2">No further history is stored: the setting ${link} was off when it happened, or the
      records were deleted after ${format.age(settings.trace_seconds)}.</p>`;
  }
  const ask = () => openDialog(() => html`<${SwitchOnTrace} topic=${topic} seconds=${settings.trace_seconds} />`);
  return html`<div class="pad s2 ask-line">
    <span><${Name}>${topic}<//> records no further history: its setting ${link} is off.</span>
    ${mayAdmin && html`<button class="btn" onClick=${ask}>Switch on the trace…</button>`}</div>`;
}

function returnsText(message) {
  const words = [
    ["nacks", "NACK"],
    ["backs", "BACK"],
    ["dacks", "DACK"],
    ["timeouts", "expired lease"],
    ["disconnects", "disconnect"],
  ];
  return words
    .filter(([name]) => message[name])
    .map(([name, word]) => `${message[name]} × ${word}`)
    .join(", ");
}

function Facts({ topic, message }) {
  const { zone } = useStore(preferences);
  const nowMs = brokerNow();
  const { origin } = message;
  const precise = (ms) => html`<${Time} ms=${ms} nowMs=${nowMs} precise=${Math.abs(nowMs - ms) < 86_400_000} />`;
  const ago = (ms) => html` <span class="s3">${format.age((nowMs - ms) / 1000)} ago</span>`;
  const link = (name, id) =>
    html`<a href=${topicUrl(name, "messages", {}, id)}><${Name}>${name}<//> <span class="m">${id}</span></a>`;
  const facts = [
    ["State", `${message.state}${origin ? ", a dead letter" : ""}`],
    ["Topic", html`<a href=${topicUrl(topic)}><${Name}>${topic}<//></a>`],
    origin && ["Was", link(origin.topic, origin.id)],
    origin && ["Group", origin.group ?? "default"],
    origin && ["Reason", html`<${Name}>${reasonOf(message)}<//>`],
    origin?.diedAtMs && ["Died", html`${precise(origin.diedAtMs)}${ago(origin.diedAtMs)}`],
    message.failure && !origin && ["Last failure", html`<${Name}>${message.failure}<//>`],
    [
      "Published",
      message.publishedAtMs ? html`${precise(message.publishedAtMs)}${ago(message.publishedAtMs)}` : format.UNKNOWN,
    ],
    message.dueAtMs && [
      "Due",
      html`${precise(message.dueAtMs)} <span class="s3">
        ${message.dueAtMs > nowMs ? `in ${format.age((message.dueAtMs - nowMs) / 1000)}` : ""}</span>`,
    ],
    ["Deliveries", format.count(message.deliveries)],
    returnsText(message) && ["Returned", returnsText(message)],
    [
      "Key",
      message.key === undefined
        ? html`<span class="s3">none</span>`
        : html`<span class="m"><${Name}>${message.key}<//></span>`,
    ],
    message.onlyFor && ["Only for", html`<${Name}>${message.onlyFor}<//>`],
    ["Expires", message.expiresAtMs ? precise(message.expiresAtMs) : html`<span class="s3">never</span>`],
  ].filter(Boolean);
  return html`<${Card} title="Message" id="h-facts" note=${zone === "utc" ? "UTC" : ""}><dl class="facts pad">
    ${facts.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl><//>`;
}

function Headers({ headers }) {
  const pairs = Array.isArray(headers) ? headers : Object.entries(headers);
  return html`<${Card} title="Headers" note=${format.count(pairs.length)}>
    ${
      pairs.length
        ? html`<dl class="facts pad m">
      ${pairs.map(([name, value]) => html`<dt><${Name}>${name}<//></dt><dd><${Name}>${value}<//></dd>`)}</dl>`
        : html`<p class="pad s2">The message has none.</p>`
    }<//>`;
}
