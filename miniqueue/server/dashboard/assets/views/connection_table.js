// A table of connections: the client, its address, what it does, and what it reads.

import * as format from "../lib/format.js";
import { topicUrl } from "../lib/routes.js";
import { html } from "../lib/ui.js";
import { Name } from "../parts/marks.js";
import { Table } from "../parts/table.js";

export function ConnectionTable({ rows, nowMs, isOfTopic = false }) {
  const columns = [
    {
      label: "Client",
      cell: (row) => html`<span class="m">${row.address}</span>${row.name && html` <${Name}>${row.name}<//>`}`,
    },
    { label: "Protocol", member: "protocol", hide: "phone", cell: (row) => (row.protocol ?? "").toUpperCase() },
    { label: "User", member: "user", cell: (row) => (row.user ? html`<${Name}>${row.user}<//>` : format.UNKNOWN) },
    !isOfTopic && {
      label: "Topic",
      member: "topic",
      cell: (row) =>
        row.topic ? html`<a href=${topicUrl(row.topic, "consumers")}><${Name}>${row.topic}<//></a>` : format.UNKNOWN,
    },
    {
      label: "Group",
      member: "group",
      hide: "phone",
      cell: (row) => (row.group ? html`<${Name}>${row.group}<//>` : format.UNKNOWN),
    },
    {
      label: "Member",
      member: "member",
      hide: "medium",
      cell: (row) => (row.member ? html`<${Name}>${row.member}<//>` : format.UNKNOWN),
    },
    { label: "Mode", member: "mode", hide: "phone", cell: (row) => row.mode ?? format.UNKNOWN },
    { label: "Library", member: "library", hide: "medium", cell: (row) => row.library ?? format.UNKNOWN },
    {
      label: "Connected",
      member: "connectedAtMs",
      isNumber: true,
      hide: "phone",
      title: "Since when, as an age",
      cell: (row) => format.age(format.secondsSince(row.connectedAtMs, nowMs)),
    },
    { label: "Leased", member: "leased", isNumber: true, cell: (row) => format.count(row.leased) },
  ].filter((column) => column && (!column.member || rows.some((row) => format.isKnown(row[column.member]))));
  return html`<${Table} caption="Connections" columns=${columns} rows=${rows}
      keyOf=${(row) => `${row.protocol} ${row.id} ${row.topic} ${row.group} ${row.member}`} />`;
}
