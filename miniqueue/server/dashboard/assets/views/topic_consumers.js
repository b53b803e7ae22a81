// The consumers of a topic.

import * as format from "../lib/format.js";
import { viewUrl } from "../lib/routes.js";
import { html } from "../lib/ui.js";
import { Card, Empty } from "../parts/states.js";
import { ConnectionTable } from "./connection_table.js";
import { useConnections } from "./connections_of.js";

export function TopicConsumers({ topic, model }) {
  const { answer, error, isLoading, reload } = useConnections({ topic, count: 100 });
  return html`<${Card} title="Consumers" note=${`${format.count(model.consumers)} now`} error=${error}
     isLoading=${isLoading && !answer} retry=${reload}>
    ${
      answer &&
      (answer.connections.length
        ? html`<${ConnectionTable} rows=${answer.connections} nowMs=${answer.nowMs} isOfTopic=${true} />
          ${
            answer.total > answer.connections.length &&
            html`<div class="pager">The first ${answer.connections.length} of ${format.exact(answer.total)}</div>`
          }`
        : html`<${Nobody} number=${model.consumers} />`)
    }<//>`;
}

function Nobody({ number }) {
  if (number > 0) {
    return html`<${Empty} title=${`${format.plural(number, "consumer")} receive with single requests`}>
      Only clients with a stream are listed here. <a href=${viewUrl("consumers")}>All connections</a><//>`;
  }
  return html`<${Empty} title="No consumer">No client waits for messages of this topic or has some leased.<//>`;
}
