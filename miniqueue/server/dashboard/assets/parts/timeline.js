// What happened to a message: a bar of held and waiting times to scale, then the list.

import * as format from "../lib/format.js";
import { topicUrl } from "../lib/routes.js";
import { preferences } from "../lib/store.js";
import { historyOf } from "../lib/trace.js";
import { html, useMemo, useState, useStore } from "../lib/ui.js";
import { Icon, Name } from "./marks.js";

const WORDS = {
  published: "Published",
  arrived: "Arrived",
  scheduled: "Published with a delay",
  cancelled: "Cancelled",
  released: "Became due",
  due: "Became due",
  committed: "Committed",
  extended: "Lease extended",
  acknowledged: "Acknowledged",
  rejected: "Rejected",
  expired: "Expired",
  dropped: "Dropped",
  purged: "Purged",
  missed: "Missed",
  fronted: "Moved to the front",
  rescheduled: "Made due at another time",
  dead_lettered: "Dead-lettered",
  redriven: "Redriven",
  sought: "The group was moved",
  group_deleted: "The group was deleted",
  left_out: "Further steps are left out",
};
const ICONS = {
  published: "bolt",
  scheduled: "clock",
  committed: "check",
  acknowledged: "ok",
  dead_lettered: "crit",
  rejected: "crit",
  dropped: "crit",
  expired: "crit",
  delivered: "out",
};
const BAD = new Set(["dead_lettered", "rejected", "dropped", "expired", "purged", "missed"]);

/** The history of a message, from the steps of its trace. */
export function Timeline({ steps }) {
  const [isRaw, setIsRaw] = useState(false);
  const history = useMemo(() => historyOf(steps), [steps]);
  const lasted = history.lastMs - history.firstMs;
  return html`<section class="card" aria-labelledby="h-history"><header><h2 id="h-history">History</h2>
    <span class="s3 n">${format.span(lasted)}, ${
      history.deliveries === 1 ? "1 delivery" : `${history.deliveries} deliveries`
    }</span>
      <div class="right tools"><button class="btn bare" aria-pressed=${String(isRaw)}
          onClick=${() => setIsRaw(!isRaw)}>All ${format.plural(steps.length, "step")}</button></div></header>
    ${lasted > 0 && history.deliveries > 0 && html`<${Bar} history=${history} />`}
    <ol class="time">${
      isRaw
        ? steps.map((step) => html`<${Raw} step=${step} />`)
        : history.entries.map((entry, at) => html`<${Entry} entry=${entry} before=${history.entries[at - 1]} />`)
    }</ol></section>`;
}

function Bar({ history }) {
  const { zone } = useStore(preferences);
  const { firstMs, lastMs, held, heldMs } = history;
  const scale = 1000 / (lastMs - firstMs);
  const waited = lastMs - firstMs - heldMs;
  return html`<div class="gantt">
    <svg viewBox="0 0 1000 24" preserveAspectRatio="none" role="img"
      aria-label=${`${held.length} settled deliveries, held for ${format.span(heldMs)} in all`}>
        <path class="w" d="M0 12h1000" />
      ${held.map(
        ([from, to]) =>
          html`<rect x=${(from - firstMs) * scale} y="4" width=${Math.max(4, (to - from) * scale)}
            height="16" rx="2" />`,
      )}</svg>
    <div class="ax n"><span>${format.clock(firstMs, zone)}</span>
      <span>leased ${format.span(heldMs)}, waited ${format.span(Math.max(0, waited))}</span><span>
        ${format.clock(lastMs, zone)}</span></div></div>`;
}

function Entry({ entry, before }) {
  const { zone } = useStore(preferences);
  if (entry.kind === "wait")
    return html`<li class="gap"><span></span><span class="d"></span>
      <p>waited ${format.span(entry.ms)} after: ${entry.outcome}</p></li>`;
  if (entry.kind === "delivery") {
    const { step } = entry;
    return html`<li class="dl"><time>${format.clockMs(entry.atMs, zone)}</time><span class="d">
      <${Icon} name="out" /></span>
      <p>Delivery ${entry.number} to <b><${Name}>${step.group ?? "default"}<//></b><small><${Name}>${step.by}<//>
        ${step.member && html` · member <${Name}>${step.member}<//>`}</small></p>
      <span class="o">${entry.outcome ?? "leased"}
        ${entry.heldMs !== null && html`<small>held ${format.span(entry.heldMs)}</small>`}
          ${entry.reason && html`<small class="why"><${Name}>${`“${entry.reason}”`}<//></small>`}</span></li>`;
  }
  const { step } = entry;
  const isEnd = BAD.has(step.event);
  const wait = before && before.atMs !== undefined ? step.atMs - before.atMs : 0;
  const other = step.to ?? step.from;
  return html`<li class=${isEnd ? "end" : ""}><time>${format.clockMs(entry.atMs, zone)}</time><span class="d">
    <${Icon} name=${ICONS[step.event] ?? "ring"} /></span>
    <p>${WORDS[step.event] ?? step.event}
      ${
        step.event === "committed"
          ? html` as <span class="m">${step.id}</span>`
          : step.event === "published" || step.event === "scheduled"
            ? html` to <b><${Name}>${step.topic}<//></b>`
            : step.reason && html`: <b><${Name}>${step.reason}<//></b>`
      }
      ${
        other &&
        html`<small>${step.to ? "to" : "from"} <a href=${topicUrl(other.topic, "messages", {}, other.id)}>
        <${Name}>${other.topic}<//> <span class="m">${other.id}</span></a></small>`
      }
      ${
        (step.by || step.group) &&
        html`<small>${step.by && html`<${Name}>${step.by}<//>`}${step.by && step.group && " · "}
          ${step.group && html`group <${Name}>${step.group}<//>`}</small>`
      }</p>
    ${step.event === "committed" && wait > 0 && html`<span class="o">after ${format.span(wait)}</span>`}</li>`;
}

function Raw({ step }) {
  const { zone } = useStore(preferences);
  const { event, atMs, ...members } = step;
  const text = Object.entries(members)
    .map(([name, value]) => `${name} ${typeof value === "object" ? `${value.topic} ${value.id}` : value}`)
    .join(", ");
  return html`<li><time>${format.clockMs(atMs, zone)}</time><span class="d"><${Icon} name=${ICONS[event] ?? "ring"} />
    </span><p><code>${event}</code><small dir="auto">${text}</small></p></li>`;
}
