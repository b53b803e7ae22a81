// The overview: trouble first, then the figures, the charts, and the topics to check.

import * as format from "../lib/format.js";
import { useLive, useNow, useRead } from "../lib/models.js";
import { rightsOn } from "../lib/rights.js";
import { queryString, topicUrl, viewUrl } from "../lib/routes.js";
import { RANGE_SECONDS } from "../lib/series.js";
import { announcement, brokerNow, isLive, route, session, totals as counts } from "../lib/store.js";
import { html, useEffect, useRef, useStore } from "../lib/ui.js";
import { Chart } from "../parts/chart.js";
import { Name, Pill, Time } from "../parts/marks.js";
import { TitleBar } from "../parts/shell.js";
import { Card, Failure, Loading, NoTopics } from "../parts/states.js";
import { Strip } from "../parts/strip.js";
import { Table } from "../parts/table.js";
import { topicColumns } from "./topic_columns.js";

const ANNOUNCED_MS = 30_000;
/** How often the history is read; its points are 20 s apart, or further. */
export const HISTORY_MS = 20_000;

export function Overview() {
  const { query } = useStore(route);
  const range = query.range ?? "15m";
  const isOn = useStore(isLive);
  const { model, error } = useLive("overview");
  // Others see the topics of their roles, with their sums, and nothing of the broker as a whole.
  const seesBroker = rightsOn(useStore(session), null).has("monitor");
  const history = useRead(seesBroker ? `history${queryString({ range })}` : null, isOn ? HISTORY_MS : null);
  return html`<${TitleBar} title="Overview" ranges=${seesBroker} />
    ${
      error && !model
        ? html`<div class="card"><${Failure} error=${error} /></div>`
        : model
          ? html`<${Figures} model=${model} history=${history.answer} range=${range} />`
          : html`<div class="card"><${Loading} rows=${8} /></div>`
    }`;
}

function Figures({ model, history, range }) {
  const nowMs = useNow();
  const { deadGrows } = useStore(counts);
  const { broker } = model;
  const isBehind = model.attention.some(({ kind }) => kind === "behind");
  const totals = { ...model.totals, deadGrows, isBehind, oldest: oldestOf(model.oldest, nowMs) };
  return html`<${Attention} lines=${model.attention} more=${model.attentionMore} nowMs=${nowMs} />
    <${Strip} label="Figures of the broker"
      tiles=${tilesOf(totals, history?.series ?? {}).map((tile) => ({
        ...tile,
        points: pointsOf(history, range),
      }))} />
    ${broker && html`<div class="row two">
      <${Chart} title="Messages per second" history=${history} range=${range}
          measures=${["published", "acknowledged", "returned"]} formatValue=${format.rate}
        current=${{
          published: totals.publishedPerSecond,
          acknowledged: totals.acknowledgedPerSecond,
          returned: totals.returnedPerSecond,
        }} />
      <${Chart} title="Backlog" history=${history} range=${range} measures=${["ready", "delayed", "leased"]}
          current=${{ ready: totals.ready, delayed: totals.delayed, leased: totals.leased }} />
    </div>`}
    <${Card} title="Topics to check" id="h-topics"
      actions=${html`<a href=${viewUrl("topics")}>${totals.topics === 1 ? "" : "All "}
        ${format.plural(totals.topics, "topic")}</a>`}>
      ${
        model.topics.length
          ? html`<${Table} caption="Topics to check"
            columns=${topicColumns(nowMs).map((column) => ({ ...column, sort: undefined }))} rows=${model.topics}
                keyOf=${(row) => row.topic} />`
          : html`<${NoTopics} />`
      }
    <//>
    ${broker && html`<p class="s3 line n">${brokerLine(broker, nowMs)}</p>`}`;
}

const oldestOf = (oldest, nowMs) =>
  oldest && {
    text: html`oldest ${format.age(format.secondsSince(oldest.atMs, nowMs))}: <${Name}>${oldest.topic}<//>`,
    href: topicUrl(oldest.topic),
  };

const pointsOf = (history, range) =>
  history ? Math.round((RANGE_SECONDS[range] ?? 900) / history.stepSeconds) + 1 : undefined;

function tilesOf(totals, series) {
  const topics = (state) => viewUrl("topics", { state });
  return [
    {
      label: "Published",
      value: format.rate(totals.publishedPerSecond),
      unit: "/s",
      values: series.published,
      color: "k1",
      href: viewUrl("topics", { sort: "-published" }),
      fact: `to ${format.plural(totals.topics, "topic")}`,
    },
    {
      label: "Acknowledged",
      value: format.rate(totals.acknowledgedPerSecond),
      unit: "/s",
      values: series.acknowledged,
      color: "k3",
      href: viewUrl("topics", { sort: "-acknowledged" }),
      fact: format.isKnown(totals.connections)
        ? format.plural(totals.connections, "connection")
        : format.plural(totals.consumers, "consumer"),
    },
    {
      label: "Returned",
      value: format.rate(totals.returnedPerSecond),
      unit: "/s",
      values: series.returned,
      color: "k2",
      href: viewUrl("topics", { sort: "-returned" }),
      fact: "to be redelivered",
    },
    {
      label: "Ready",
      count: totals.ready,
      values: series.ready,
      color: "k1",
      href: viewUrl("topics", { sort: "-ready" }),
      fact: totals.oldest?.text ?? (totals.ready ? "wait for consumers" : "nothing waits"),
      factHref: totals.oldest?.href,
      isBad: totals.isBehind,
    },
    {
      label: "Leased",
      count: totals.leased,
      values: series.leased,
      color: "k3",
      href: viewUrl("topics", { sort: "-leased" }),
      fact: `${format.count(totals.delayed)} delayed`,
    },
    {
      label: "Dead letters",
      count: totals.dead,
      values: series.dead,
      color: "k2",
      href: totals.dead ? viewUrl("dead") : topics("dead"),
      fact: "wait for a decision",
      isBad: totals.deadGrows,
    },
  ];
}

function brokerLine(broker, nowMs) {
  const parts = [
    `miniqueue ${broker.version}`,
    `up ${format.age(format.secondsSince(broker.startedAtMs, nowMs))}`,
    format.isKnown(broker.diskFreeBytes) && `${format.bytes(broker.diskFreeBytes)} free on the disk`,
    broker.storeBytes && `store ${format.bytes(broker.storeBytes)}`,
    broker.memory && `memory ${format.bytes(broker.memory.rssBytes)}`,
    format.isKnown(broker.loopLagSeconds?.max) &&
      `longest delay of the event loop ${format.age(broker.loopLagSeconds.max)}`,
  ];
  return html`${parts.filter(Boolean).join(" · ")}`;
}

/** What is wrong, where, and since when, worst first. */
function Attention({ lines, more, nowMs }) {
  useAnnouncements(lines);
  if (!lines.length) {
    return html`<section class="card todo" aria-labelledby="h-attention"><header>
      <h2 id="h-attention">Needs attention</h2><span class="pill fine"><svg aria-hidden="true">
        <use href="#i-check" /></svg>Nothing</span></header></section>`;
  }
  return html`<section class="card todo" aria-labelledby="h-attention"><header>
    <h2 id="h-attention">Needs attention</h2><span class="s3 n">${lines.length + (more || 0)}</span></header>
    <ul>${lines.map(
      (
        line,
      ) => html`<li key=${`${line.kind} ${line.topic} ${line.group}`}><${Pill} kind=${line.kind} level=${line.level}
          paused=${line.side} />
      <${Subject} line=${line} /><p>${line.text}</p><span class="since">
        ${format.isKnown(line.sinceMs) && html`since <${Time} ms=${line.sinceMs} nowMs=${nowMs} />`}</span></li>`,
    )}
      ${
        more > 0 &&
        html`<li class="rest"><a href=${viewUrl("topics", { sort: "state" })}>
        ${format.count(more)} more</a></li>`
      }</ul></section>`;
}

function Subject({ line }) {
  if (!line.topic) return html`<a href=${viewUrl("broker")}>Broker</a>`;
  const href =
    line.kind === "dead" ? topicUrl(line.topic, "messages", { state: "dead" }) : topicUrl(line.topic, "summary");
  return html`<a href=${href}><${Name}>${line.topic}<//>${line.group && html` · <${Name}>${line.group}<//>`}</a>`;
}

/** Announce, at most every 30 s, what entered or left the list. */
function useAnnouncements(lines) {
  const known = useRef(null);
  const lastMs = useRef(0);
  useEffect(() => {
    const now = new Map(lines.map((line) => [`${line.kind} ${line.topic} ${line.group}`, line]));
    if (known.current === null) known.current = now;
    if (brokerNow() - lastMs.current < ANNOUNCED_MS) return;
    const entered = [...now]
      .filter(([key]) => !known.current.has(key))
      .map(([, line]) => `${line.topic ?? "Broker"}: ${line.text}`);
    const ended = [...known.current]
      .filter(([key]) => !now.has(key))
      .map(([, line]) => `${line.topic ?? "Broker"} no longer needs attention.`);
    if (entered.length + ended.length === 0) return;
    lastMs.current = brokerNow();
    known.current = now;
    announcement.set([...entered, ...ended].slice(0, 3).join(" "));
  }, [lines]);
}
