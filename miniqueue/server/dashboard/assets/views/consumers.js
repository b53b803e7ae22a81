// The clients that are connected to the broker.

import { setQuery } from "../lib/navigation.js";
import { preferences, route } from "../lib/store.js";
import { html, useStore } from "../lib/ui.js";
import { Filter } from "../parts/filter.js";
import { TitleBar } from "../parts/shell.js";
import { Empty, Failure, Loading } from "../parts/states.js";
import { pageText, Pager } from "../parts/table.js";
import { ConnectionTable } from "./connection_table.js";
import { useConnections } from "./connections_of.js";

export function Consumers() {
  const { query } = useStore(route);
  const { rows: count } = useStore(preferences);
  const { q = "" } = query;
  const page = Math.max(1, Number(query.page) || 1);
  const { answer, error, reload } = useConnections({ q, page, count });
  return html`<${TitleBar} title="Consumers" />
    <div class="bar">
      <${Filter} label="Filter connections" placeholder="Filter: address, name, user, or topic" value=${q} /></div>
    <div class="card">${
      answer
        ? html`<${Rows} answer=${answer} page=${page} count=${count} q=${q} />`
        : error
          ? html`<${Failure} error=${error} retry=${reload} />`
          : html`<${Loading} rows=${8} />`
    }</div>`;
}

function Rows({ answer, page, count, q }) {
  const rows = answer.connections;
  if (!rows.length)
    return html`<${Empty} title=${q ? "No connection matches" : "No client is connected"}>
      ${q ? "Another filter may show more." : "Producers and consumers are listed here while they are connected."}<//>`;
  const first = (page - 1) * count + 1;
  const last = first + rows.length - 1;
  const go = (to) => () => setQuery({ page: to === 1 ? null : to });
  return html`<${ConnectionTable} rows=${rows} nowMs=${answer.nowMs} />
    <${Pager} text=${pageText(first, last, answer.total)}
        onPrevious=${page > 1 && go(page - 1)} onNext=${last < answer.total && go(page + 1)} />`;
}
