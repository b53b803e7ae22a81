// The summary of a topic: figures, charts, groups, settings that are not at their defaults, partitions, totals.

import * as format from "../lib/format.js";
import { useNow, useRead } from "../lib/models.js";
import { queryString, topicUrl } from "../lib/routes.js";
import { settingText } from "../lib/setting_values.js";
import { isLive, preferences } from "../lib/store.js";
import { html, useStore } from "../lib/ui.js";
import { Chart } from "../parts/chart.js";
import { Meter, Name, Parts } from "../parts/marks.js";
import { Card } from "../parts/states.js";
import { Strip } from "../parts/strip.js";
import { GroupTable } from "./groups.js";
import { HISTORY_MS } from "./overview.js";

const SHOWN_PARTITIONS = 32;

export function Summary({ topic, model }) {
  const isOn = useStore(isLive);
  const history = useRead(`history${queryString({ topic, range: "15m" })}`, isOn ? HISTORY_MS : null);
  const { zone } = useStore(preferences);
  const nowMs = useNow();
  return html`<${Strip} label="Figures of the topic" tiles=${tilesOf(topic, model, zone, nowMs)} />
    <div class="row two">
      <${Chart} title="Messages per second" history=${history.answer}
          measures=${["published", "acknowledged", "returned"]} formatValue=${format.rate}
        current=${{
          published: model.publishedPerSecond,
          acknowledged: model.acknowledgedPerSecond,
          returned: model.returnedPerSecond,
        }} />
      <${Chart} title="Backlog" history=${history.answer}
          measures=${["ready", "delayed", "leased"]}
            current=${{ ready: model.ready, delayed: model.delayed, leased: model.leased }} />
    </div>
    <div class="row wide">
      <${Card} title="Groups" note="each gets every message"><${GroupTable} topic=${topic} model=${model}
          isShort=${true} /><//>
      <${ChangedSettings} topic=${topic} model=${model} />
    </div>
    <div class="row wide"><${PartitionBars} topic=${topic} model=${model} /><${Totals} model=${model} /></div>`;
}

function tilesOf(topic, model, zone, nowMs) {
  const messages = (state) => topicUrl(topic, "messages", { state });
  const slowest = model.slowestGroup;
  return [
    {
      label: "Ready",
      count: model.ready,
      fact: html`${growthText(model)}${slowest && html`, group <${Name}>${slowest}<//>`}`,
      href: messages("ready"),
      isBad: model.state === "behind",
    },
    {
      label: "Leased",
      count: model.leased,
      fact: `by ${format.plural(model.consumers, "consumer")}`,
      href: messages("leased"),
    },
    {
      label: "Delayed",
      count: model.delayed,
      fact: dueFact(model, zone, nowMs),
      href: messages("delayed"),
    },
    {
      label: "Dead letters",
      count: model.dead,
      fact: html`in <${Name}>${model.deadLetterTopic}<//>`,
      href: messages("dead"),
      isBad: model.state === "dead",
    },
    {
      label: "Oldest",
      value: html`<${Parts} seconds=${format.secondsSince(model.oldestAtMs, nowMs)} />`,
      fact: model.oldestAtMs ? `published ${format.time(model.oldestAtMs, nowMs, zone)}` : "nothing waits",
      href: messages("ready"),
    },
    {
      label: "Delivery, p99",
      value: html`<${Parts} seconds=${model.deliveryP99Seconds} />`,
      fact: "from commit to delivery",
    },
  ];
}

/** How fast the ready messages of the last minute grew: the history has a point every 20 s. */
function growthPerSecond(history) {
  const [before, last] = [history[history.length - 4], history[history.length - 1]];
  return format.isKnown(before) && format.isKnown(last) ? (last - before) / 60 : null;
}

function growthText(model) {
  const growth = growthPerSecond(model.readyHistory ?? []);
  if (growth === null) return "waiting to be delivered";
  if (growth >= 0.1) return `+${format.rate(growth)} per second`;
  return growth <= -0.1 ? `−${format.rate(-growth)} per second` : "steady";
}

function dueFact(model, zone, nowMs) {
  if (!model.delayed) return "nothing is delayed";
  if (!model.nextDueAtMs) return "wait for their time";
  const seconds = Math.max(0, (model.nextDueAtMs - nowMs) / 1000);
  return seconds < 3600
    ? `next is due in ${format.age(seconds)}`
    : `next is due ${format.time(model.nextDueAtMs, nowMs, zone)}`;
}

function ChangedSettings({ topic, model }) {
  const changed = model.changed ?? [];
  return html`<${Card} title="Changed settings" id="h-changed"
    actions=${html`<a href=${topicUrl(topic, "settings")}>All settings</a>`}>
    ${
      changed.length
        ? html`<dl class="facts pad">
      ${changed.map(
        (name) => html`<dt>${name}</dt><dd>${settingText(model.settings[name]) || "–"}
        ${secondsNote(name, model.settings[name])}</dd>`,
      )}</dl>`
        : html`<p class="pad s2">None: all settings are at their defaults.</p>`
    }<//>`;
}

/** Seconds above two minutes are hard to read as a number. */
export function secondsNote(name, value) {
  return name.endsWith("_seconds") && typeof value === "number" && value >= 120
    ? html` <span class="s3">${format.age(value)}</span>`
    : null;
}

function PartitionBars({ topic, model }) {
  const number = format.count((model.partitions ?? []).length);
  const partitions = (model.partitions ?? []).slice(0, SHOWN_PARTITIONS);
  const high = Math.max(1, ...partitions.map(({ lag }) => lag ?? 0));
  return html`<${Card} title="Partitions, by messages not acknowledged" id="h-partitions"
    actions=${partitions.length > 1 && html`<a href=${topicUrl(topic, "partitions")}>All ${number} partitions</a>`}>
    <ul class="parts pad">${partitions.map(
      ({ partition, lag }) =>
        html`<li><span class="s2">${partition}</span><${Meter} part=${(lag ?? 0) / high}
          label=${`partition ${partition}`} /><b class="n">${format.count(lag)}</b></li>`,
    )}</ul><//>`;
}

function Totals({ model }) {
  const totals = model.totals ?? {};
  const exactNote = (value) =>
    value >= format.FIRST_ROUNDED ? html` <span class="s3">${format.exact(value)}</span>` : null;
  const rows = [
    ["Published", html`${format.count(totals.published)}${exactNote(totals.published)}`],
    [
      "Acknowledged",
      html`${format.count(totals.acknowledged)}
        ${" "}<span class="s3">by ${format.plural((model.groups ?? []).length, "group")}</span>`,
    ],
    ["Dead-lettered, redriven", format.count(totals.moved)],
    ["Dropped", format.count(totals.dropped)],
    ["Missed", format.count(totals.missed)],
    [
      "Size",
      `${format.bytes(totals.sizeBytes)} waiting${
        totals.retainedBytes ? `, ${format.bytes(totals.retainedBytes)} retained` : ""
      }`,
    ],
  ];
  return html`<${Card} title="Since the topic was created" id="h-totals"><dl class="facts pad">
    ${rows.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl><//>`;
}
