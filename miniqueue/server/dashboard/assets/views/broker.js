// The broker: readiness, shards, limits, memory by purpose, settings, users and quotas, tasks, copies that follow.

import * as format from "../lib/format.js";
import { act } from "../lib/api.js";
import { useLive } from "../lib/models.js";
import { topicUrl } from "../lib/routes.js";
import { preferences } from "../lib/store.js";
import { html, useStore } from "../lib/ui.js";
import { Meter, Name, Time } from "../parts/marks.js";
import { TitleBar } from "../parts/shell.js";
import { Card, Failure, Loading } from "../parts/states.js";
import { say } from "../parts/toast.js";
import { Table } from "../parts/table.js";

export function Broker() {
  const { model, error } = useLive("broker");
  return html`<${TitleBar} title="Broker" />
    ${
      model
        ? html`<${Content} model=${model} />`
        : html`<div class="card">${error ? html`<${Failure} error=${error} />` : html`<${Loading} rows=${8} />`}
        </div>`
    }`;
}

function Content({ model }) {
  return html`<div class="row two"><${State} model=${model} /><${Memory} memory=${model.memory} /></div>
    ${model.shards && html`<${Shards} shards=${model.shards} nowMs=${model.nowMs} />`}
    <${Limits} limits=${model.limits ?? []} />
    ${model.users && html`<${Users} users=${model.users} usage=${model.usage ?? []} />`}
    ${!model.users && model.usage && html`<${Usage} usage=${model.usage} />`}
    <${Tasks} tasks=${model.tasks ?? []} nowMs=${model.nowMs} />
    ${(model.followers ?? []).length > 0 && html`<${Followers} followers=${model.followers} />`}
    ${(model.settings ?? []).length > 0 && html`<${Flags} settings=${model.settings} />`}`;
}

function State({ model }) {
  const { zone } = useStore(preferences);
  const { ready = {} } = model;
  const isOk = ready.status === "ok";
  const lag = model.loopLagSeconds;
  const facts = [
    [
      "State",
      isOk
        ? html`<span class="pill fine"><svg aria-hidden="true"><use href="#i-check" /></svg>Ready</span>`
        : html`<span class="pill crit"><svg aria-hidden="true"><use href="#i-crit" /></svg>${ready.status}
          </span> ${(ready.refused ?? []).length > 0 && `rejects: ${ready.refused.join(", ")}`}`,
    ],
    (ready.reasons ?? []).length > 0 && ["Reasons", ready.reasons.join("; ")],
    ["Version", model.version],
    [
      "Started",
      html`<${Time} ms=${model.startedAtMs} nowMs=${model.nowMs} />
        ${" "}<span class="s3">up ${format.age((model.nowMs - model.startedAtMs) / 1000)}</span>`,
    ],
    model.sync && [
      "Sync",
      model.sync === "always" ? html`always <span class="s3">each reply is on the disk</span>` : model.sync,
    ],
    model.storage && ["Storage", model.storage],
    model.storePath && ["Directory", html`<span class="m">${model.storePath}</span>`],
    ["Store", format.bytes(model.storeBytes)],
    [
      "Free on the disk",
      html`${format.bytes(model.diskFreeBytes)}
        ${
          model.minFreeBytes
            ? html` <span class="s3">publishes are rejected below ${format.bytes(model.minFreeBytes)}
          </span>`
            : ""
        }`,
    ],
    lag && [
      "Event loop",
      html`${format.age(lag.p99)} <span class="s3">late at p99, at most ${format.age(lag.max)}</span>`,
    ],
    model.certificateExpiresAtMs && [
      "Certificate",
      html`until <${Time} ms=${model.certificateExpiresAtMs} nowMs=${model.nowMs} /> <span class="s3">
        ${format.age((model.certificateExpiresAtMs - model.nowMs) / 1000)}</span>`,
    ],
    model.python && ["Python", model.python],
  ].filter(Boolean);
  return html`<${Card} title="State" id="h-state" note=${zone === "utc" ? "times in UTC" : ""}><dl class="facts pad">
    ${facts.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl><//>`;
}

const STATUSES = { ok: ["fine", "check", "Ready"], away: ["crit", "crit", "Does not answer"] };

function ShardState({ status }) {
  const [level, icon, word] = STATUSES[status] ?? ["crit", "crit", status];
  return html`<span class=${`pill ${level}`}><svg aria-hidden="true"><use href=${`#i-${icon}`} /></svg>${word}</span>`;
}

function Shards({ shards, nowMs }) {
  const known = (value, show) => (format.isKnown(value) ? show(value) : format.UNKNOWN);
  const columns = [
    { label: "Shard", className: "m", cell: (row) => row.shard },
    { label: "State", cell: (row) => html`<${ShardState} status=${row.status} />` },
    { label: "Topics", isNumber: true, cell: (row) => known(row.topics, format.count) },
    { label: "Published/s", isNumber: true, hide: "phone", cell: (row) => known(row.publishedPerSecond, format.rate) },
    { label: "Acknowledged/s", isNumber: true, hide: "phone",
      cell: (row) => known(row.acknowledgedPerSecond, format.rate) },
    { label: "Memory", isNumber: true, hide: "phone", cell: (row) => known(row.rssBytes, format.bytes) },
    { label: "Store", isNumber: true, hide: "medium", cell: (row) => known(row.storeBytes, format.bytes) },
    { label: "Late at p99", isNumber: true, hide: "medium", cell: (row) => known(row.lagSeconds, format.age) },
    { label: "Process", className: "m", hide: "medium", cell: (row) => known(row.processId, String) },
    {
      label: "Started",
      hide: "phone",
      cell: (row) => known(row.processStartedAtMs, (ms) => html`<${Time} ms=${ms} nowMs=${nowMs} />`),
    },
  ];
  return html`<${Card} title="Shards" id="h-shards" note=${format.plural(shards.length, "process", "processes")}>
    <${Table} caption="Shards of the broker" columns=${columns} rows=${shards} keyOf=${({ shard }) => shard} /><//>`;
}

function Memory({ memory }) {
  if (!memory) return null;
  const purposes = Object.entries(memory.purposes ?? {}).sort(([, a], [, b]) => b - a);
  const high = Math.max(1, ...purposes.map(([, size]) => size));
  return html`<${Card} title="Memory" id="h-memory"><dl class="facts pad">
      <dt>Process</dt><dd>${format.bytes(memory.rssBytes)}</dd>
      <dt>Used for clients</dt><dd>${format.bytes(memory.usedBytes)} of ${format.bytes(memory.limitBytes)}
        ${" "}<${Meter} part=${memory.usedBytes / (memory.limitBytes || Infinity)} label="used for clients" /></dd></dl>
    <ul class="parts one pad">
      ${purposes.map(
        ([purpose, size]) =>
          html`<li><span class="s2">${purpose}</span><${Meter} part=${size / high} label=${purpose} /><b class="n">
          ${format.bytes(size)}</b></li>`,
      )}</ul><//>`;
}

const levelOf = (part) => (part >= 0.9 ? "full" : "");
const asLimit = (name, value) => (/bytes|memory|disk|size/i.test(name) ? format.bytes(value) : format.count(value));

function Limits({ limits }) {
  const columns = [
    { label: "Limit", cell: (row) => row.name },
    { label: "Used", isNumber: true, cell: (row) => asLimit(row.name, row.used) },
    { label: "Of", isNumber: true, cell: (row) => (row.limit ? asLimit(row.name, row.limit) : "unlimited") },
    {
      label: "Part",
      isLabelHidden: true,
      className: "meter-cell",
      hide: "phone",
      cell: (row) =>
        row.limit
          ? html`<${Meter} part=${row.used / row.limit} level=${levelOf(row.used / row.limit)}
              label=${`${row.name}: ${Math.round((100 * row.used) / row.limit)} % used`} />`
          : "",
    },
    { label: "Flag", className: "m", hide: "phone", cell: (row) => row.flag ?? "" },
  ];
  return html`<${Card} title="Limits" id="h-limits">
    ${
      limits.length
        ? html`<${Table} caption="Limits of the broker" columns=${columns} rows=${limits}
        keyOf=${({ name }) => name} />`
        : html`<p class="pad s2">None are known.</p>`
    }<//>`;
}

const QUOTAS = [
  ["topics", "Topics"],
  ["bytes", "Bytes"],
  ["connections", "Connections"],
  ["messagesPerSecond", "Messages/s"],
  ["memoryBytes", "Memory"],
];

const quota = (name, amount) => {
  if (!format.isKnown(amount?.used)) return format.UNKNOWN;
  const shown = (value) => asLimit(name, value);
  return html`${shown(amount.used)}${amount.limit ? html` <span class="s3">of ${shown(amount.limit)}</span>` : ""}`;
};

const quotaColumns = QUOTAS.map(([name, label], at) => ({
  label,
  isNumber: true,
  hide: at > 1 ? "medium" : "phone",
  cell: ({ usage }) => quota(name, usage?.[name]),
}));

function Users({ users, usage }) {
  const rows = users.map(({ user, roles }) => ({ user, roles, usage: usage.find((entry) => entry.user === user) }));
  const columns = [
    { label: "User", cell: (row) => html`<${Name}>${row.user}<//>` },
    {
      label: "Roles",
      className: "wrap",
      cell: (row) => row.roles.map(({ role, topics }) => `${role} of ${topics.join(", ")}`).join("; ") || "none",
    },
    ...quotaColumns,
  ];
  return html`<${Card} title="Users" id="h-users" note=${format.plural(users.length, "user")}>
    <${Table} caption="Users and what they use" columns=${columns} rows=${rows} keyOf=${({ user }) => user} /><//>`;
}

function Usage({ usage }) {
  const rows = usage.map((entry) => ({ user: entry.user, usage: entry }));
  const columns = [
    { label: "User", cell: (row) => (row.user ? html`<${Name}>${row.user}<//>` : "all clients") },
    ...quotaColumns,
  ];
  return html`<${Card} title="Usage" id="h-usage"><${Table} caption="What clients use" columns=${columns} rows=${rows}
      keyOf=${({ user }) => user ?? ""} /><//>`;
}

function Tasks({ tasks, nowMs }) {
  if (!tasks.length) return null;
  const cancel = async (id) => {
    try {
      await act("DELETE", ["tasks", id]);
      say(`Task ${id} ends after its current step.`);
    } catch (error) {
      say(`Task ${id} was not cancelled: ${error.message}`);
    }
  };
  const columns = [
    { label: "Task", className: "m", cell: (row) => row.id },
    { label: "Topic", cell: (row) => html`<a href=${topicUrl(row.topic)}><${Name}>${row.topic}<//></a>` },
    { label: "Act", cell: (row) => row.act },
    { label: "Status", cell: (row) => html`${row.status}${row.error && html`: ${row.error}`}` },
    { label: "Messages", isNumber: true, cell: (row) => format.count(row.count) },
    { label: "Begun", hide: "phone", cell: (row) => html`<${Time} ms=${row.begunAtMs} nowMs=${nowMs} />` },
    {
      label: "Acts",
      isLabelHidden: true,
      cell: (row) =>
        row.status === "running" && html`<button class="btn" onClick=${() => cancel(row.id)}>Stop</button>`,
    },
  ];
  return html`<${Card} title="Tasks" id="h-tasks"><${Table} caption="Tasks" columns=${columns} rows=${tasks}
      keyOf=${({ id }) => id} /><//>`;
}

function Followers({ followers }) {
  const columns = [
    { label: "Copy", className: "m", cell: (row) => row.name },
    { label: "Behind by", isNumber: true, cell: (row) => format.age(row.lagSeconds) },
    { label: "Bytes", isNumber: true, cell: (row) => format.bytes(row.lagBytes) },
  ];
  return html`<${Card} title="Copies that follow" id="h-followers">
    <${Table} caption="Copies that follow" columns=${columns} rows=${followers} keyOf=${({ name }) => name} /><//>`;
}

function Flags({ settings }) {
  const columns = [
    { label: "Flag", className: "m", cell: (row) => row.flag },
    { label: "Value", className: "wrap", cell: (row) => (row.value ?? "") === "" ? format.UNKNOWN : String(row.value) },
    {
      label: "Default",
      hide: "phone",
      cell: (row) => (row.default ? html`<span class="s3">default</span>` : html`<span class="pill">changed</span>`),
    },
  ];
  return html`<${Card} title="Settings of the broker" id="h-flags" note="set at startup, without secrets">
    <${Table} caption="Settings of the broker" columns=${columns} rows=${settings} keyOf=${({ flag }) => flag} /><//>`;
}
