// The consumers of a topic: connections that read it, and users and addresses with messages that they received.

import * as format from "../lib/format.js";
import { topicUrl, viewUrl } from "../lib/routes.js";
import { html } from "../lib/ui.js";
import { Name } from "../parts/marks.js";
import { Card, Empty } from "../parts/states.js";
import { Table } from "../parts/table.js";
import { ConnectionTable } from "./connection_table.js";
import { useConnections } from "./connections_of.js";

export function TopicConsumers({ topic, model }) {
  const { answer, error, isLoading, reload } = useConnections({ topic, count: 100 });
  const connections = answer?.connections ?? [];
  const note = `${format.count(model.consumers)} now`;
  return html`<${Card} title="Consumers" note=${note} error=${error} isLoading=${isLoading && !answer} retry=${reload}>
      ${answer && (connections.length ? html`<${Connections} answer=${answer} />` : html`<${None} model=${model} />`)}
    <//>
    ${answer?.holders.length > 0 && html`<${Holders} topic=${topic} answer=${answer} />`}`;
}

function Connections({ answer: { connections, total, nowMs } }) {
  const rest = `The first ${connections.length} of ${format.exact(total)}`;
  return html`<${ConnectionTable} rows=${connections} nowMs=${nowMs} isOfTopic=${true} />
    ${total > connections.length && html`<div class="pager">${rest}</div>`}`;
}

function None({ model }) {
  if (model.consumers > 0) {
    return html`<${Empty} title=${format.plural(model.consumers, "consumer")}>
      They read over HTTP, or receive from several topics at once: connections over RESP that read this topic are
      listed here. <a href=${viewUrl("consumers")}>All connections</a><//>`;
  }
  return html`<${Empty} title="No consumer">
    No connection has a stream of this topic, or received from it last.<//>`;
}

/** Users and addresses with messages that they received with requests: such leases belong to no connection. */
function Holders({ topic, answer: { holders, nowMs } }) {
  const columns = [
    {
      label: "Held by",
      cell: ({ user, address }) => {
        if (user) return html`user <${Name}>${user}<//>`;
        return address ? html`<span class="m">${address}</span>` : "an unknown client";
      },
    },
    {
      label: "Group",
      cell: ({ group }) => html`<a href=${topicUrl(topic, "groups", { group })}><${Name}>${group}<//></a>`,
    },
    {
      label: "First lease ends in",
      isNumber: true,
      hide: "phone",
      cell: ({ firstEndsAtMs }) => format.age(Math.max(0, firstEndsAtMs - nowMs) / 1000),
    },
    { label: "Leased", isNumber: true, cell: ({ leased }) => format.count(leased) },
  ];
  return html`<${Card} title="Leased with requests" id="h-holders" note="until they are settled or their leases end">
    <${Table} caption="Users and addresses that hold messages" columns=${columns} rows=${holders}
      keyOf=${({ group, user, address }) => `${group} ${user} ${address}`} /><//>`;
}
