// The groups of a topic: what each has not acknowledged, its members, its position; seek, pause, delete.

import * as format from "../lib/format.js";
import { useNow } from "../lib/models.js";
import { setQuery } from "../lib/navigation.js";
import { topicUrl } from "../lib/routes.js";
import { parseSort, sorted } from "../lib/sorting.js";
import { preferences, route } from "../lib/store.js";
import { html, useStore } from "../lib/ui.js";
import { CreateGroup, DeleteGroup, Seek } from "../acts/group_acts.js";
import { Pause, resume } from "../acts/topic_acts.js";
import { More, openDialog } from "../parts/dialog.js";
import { Meter, Name, Pill } from "../parts/marks.js";
import { Card, Empty } from "../parts/states.js";
import { Table } from "../parts/table.js";

const SHOWN = 5;
/** Up to this number of partitions, each has a line of its own. */
const FEW = 12;

/** A table of groups, by what they have not acknowledged. */
export function GroupTable({ topic, model, isShort = false }) {
  const { query } = useStore(route);
  const order = parseSort(isShort ? "" : query.sort, "-lag");
  const nowMs = useNow();
  const groups = model.groups ?? [];
  const high = Math.max(1, ...groups.map(({ lag }) => lag ?? 0));
  const rows = sorted(groups, order).slice(0, isShort ? SHOWN : undefined);
  const columns = [
    {
      label: "Group",
      sort: "group",
      cell: (row) =>
        html`<a href=${topicUrl(topic, "groups", { group: row.group })}><${Name}>${row.group}<//></a>
          ${isPaused(row) && html` <${Pill} kind="paused" />`}`,
    },
    { label: "Not acknowledged", sort: "lag", isNumber: true, cell: (row) => format.count(row.lag) },
    {
      label: "Compared to the others",
      isLabelHidden: true,
      hide: "phone",
      className: "meter-cell",
      cell: (row) =>
        html`<${Meter} part=${(row.lag ?? 0) / high}
            label=${`compared to the others: ${Math.round((100 * (row.lag ?? 0)) / high)} %`} />`,
    },
    {
      label: "Acked/s",
      title: "Acknowledged per second",
      sort: "acknowledgedPerSecond",
      isNumber: true,
      hide: "phone",
      cell: (row) => format.rate(row.acknowledgedPerSecond),
    },
    { label: "Leased", sort: "leased", isNumber: true, hide: "phone", cell: (row) => format.count(row.leased) },
    {
      label: "Oldest",
      sort: "oldestAtMs",
      isNumber: true,
      hide: isShort ? "medium" : "phone",
      cell: (row) => format.age(format.secondsSince(row.oldestAtMs, nowMs)),
    },
    { label: "Consumers", sort: "consumers", isNumber: true, cell: (row) => format.count(row.consumers) },
  ];
  return html`<${Table} caption="Groups" columns=${columns} rows=${rows} keyOf=${(row) => row.group} sort=${order}
      onSort=${isShort ? null : (sort) => setQuery({ sort: sort === "-lag" ? null : sort })} />
    ${
      isShort &&
      groups.length > SHOWN &&
      html`<div class="pager">
        <a href=${topicUrl(topic, "groups")}>All ${format.plural(groups.length, "group")}</a></div>`
    }
    ${
      !isShort &&
      model.groupsMore > 0 &&
      html`<div class="pager">${format.exact(model.groupsMore)} more groups are not shown.</div>`
    }`;
}

const isPaused = (group) => Boolean(group.pausedUntilMs);

export function Groups({ topic, model, rights }) {
  const { query } = useStore(route);
  const group = query.group !== undefined && (model.groups ?? []).find(({ group: name }) => name === query.group);
  const create =
    rights.has("admin") &&
    html`<button class="btn"
      onClick=${() => openDialog(() => html`<${CreateGroup} topic=${topic} />`)}>Create a group…</button>`;
  return html`<${Card} title="Groups" note="each gets every message" actions=${create}>
    ${
      (model.groups ?? []).length
        ? html`<${GroupTable} topic=${topic} model=${model} />`
        : html`<${Empty} title="No groups">The first consumer creates the group that it names.<//>`
    }<//>
    ${
      query.group !== undefined &&
      !group &&
      html`<div class="card">
        <${Empty} title="No such group">The topic has no group <${Name}>${query.group}<//>.<//></div>`
    }
    ${group && html`<${Group} topic=${topic} group=${group} rights=${rights} />`}`;
}

function Group({ topic, group, rights }) {
  const nowMs = useNow();
  const { zone } = useStore(preferences);
  const ask = (dialog) => () => openDialog(dialog);
  const name = group.group;
  const remove = ask(() => html`<${DeleteGroup} topic=${topic} group=${name} lag=${group.lag} />`);
  const actions =
    rights.has("admin") &&
    html`<button class="btn" onClick=${ask(() => html`<${Seek} topic=${topic} group=${name} />`)}>Seek…</button>
    ${
      isPaused(group)
        ? html`<button class="btn" onClick=${() => resume(topic, name)}>Resume</button>`
        : html`<button class="btn"
        onClick=${ask(() => html`<${Pause} topic=${topic} group=${name} />`)}>Pause…</button>`
    }
    <${More} label="More acts on the group" items=${[["Delete…", remove, true]]} />`;
  const members = Object.entries(group.members ?? {});
  const moving = Object.entries(group.moving ?? {});
  const lags = Object.entries(group.lags ?? {});
  const high = Math.max(1, ...lags.map(([, lag]) => lag));
  const facts = [
    ["Ready", format.count(group.ready)],
    [
      "Leased",
      html`<a href=${topicUrl(topic, "messages", { state: "leased", group: name })}>${format.count(group.leased)}</a>
        ${group.leased > 0 && html` <a href=${topicUrl(topic, "consumers")}>holders</a>`}`,
    ],
    ["Delayed", format.count(group.delayed)],
    ["Not acknowledged", format.count(group.lag)],
    ["Acknowledged per second", format.rate(group.acknowledgedPerSecond)],
    ["Oldest", format.age(format.secondsSince(group.oldestAtMs, nowMs))],
    [
      "Consumers",
      format.count(group.consumers) + (group.waiting > 0 ? `, ${format.count(group.waiting)} of them wait` : ""),
    ],
    [
      "Last read",
      !format.isKnown(group.unreadSeconds)
        ? format.UNKNOWN
        : group.unreadSeconds === 0
          ? "now"
          : `${format.age(group.unreadSeconds)} ago`,
    ],
    isPaused(group) && [
      "Paused",
      group.pausedUntilMs >= format.FOREVER_MS || !group.pausedUntilMs
        ? "until it is resumed"
        : `until ${format.time(group.pausedUntilMs, nowMs, zone)}`,
    ],
    group.idleSeconds > 0 && ["Ends", `after ${format.age(group.idleSeconds)} without a consumer`],
    moving.length > 0 && ["Moving", moving.map(([partition, member]) => `${partition} to ${member}`).join(", ")],
    group.position && ["Position", html`<span class="m">${group.position.join(" ")}</span>`],
  ].filter(Boolean);
  return html`<div class="row wide"><${Card} title=${html`Group <${Name}>${name}<//>`}
      id="h-group" actions=${actions}><dl class="facts pad">
        ${facts.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl><//>
    <div class="row"><${Card} title="Not acknowledged, by partition" id="h-lags">
      <ul class=${lags.length <= FEW ? "parts one pad" : "parts pad"}>
      ${lags.map(
        ([partition, lag]) =>
          html`<li><span class="s2">${partition}</span><${Meter} part=${lag / high} label=${`partition ${partition}`} />
          <b class="n">${format.count(lag)}</b></li>`,
      )}</ul><//>
    <${Card} title="Members" id="h-members">${
      members.length
        ? html`<${Table} caption="Members of the group" columns=${[
            { label: "Member", cell: ([member]) => html`<${Name}>${member}<//>` },
            { label: "Partitions", cell: ([, numbers]) => numbers.join(", ") || "none" },
          ]} rows=${members} keyOf=${([member]) => member} />`
        : html`<p class="pad s2">The group has no members: its consumers share all partitions.</p>`
    }<//></div></div>`;
}
