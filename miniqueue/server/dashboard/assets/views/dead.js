// Dead letters: topics by the growth of their dead letters.

import * as format from "../lib/format.js";
import { useLive, useNow } from "../lib/models.js";
import { setQuery } from "../lib/navigation.js";
import { queryString, topicUrl } from "../lib/routes.js";
import { rightsOn } from "../lib/rights.js";
import { inOrderOf } from "../lib/sorting.js";
import { preferences, route, session } from "../lib/store.js";
import { html, useRef, useStore } from "../lib/ui.js";
import { DropDead, Redrive } from "../acts/redrive.js";
import { More, openDialog } from "../parts/dialog.js";
import { Name } from "../parts/marks.js";
import { Filter } from "../parts/filter.js";
import { TitleBar } from "../parts/shell.js";
import { Empty, Failure, Loading } from "../parts/states.js";
import { pageText, Pager, Table } from "../parts/table.js";

export function Dead() {
  const { query } = useStore(route);
  const { rows: count } = useStore(preferences);
  const { q = "" } = query;
  const page = Math.max(1, Number(query.page) || 1);
  const view = `dead${queryString({ q, page, count })}`;
  const { model, error } = useLive(view);
  const latest = useRef(null);
  if (model) latest.current = model;
  const shown = model ?? latest.current;
  return html`<${TitleBar} title="Dead letters" />
    <div class="bar">
      <${Filter} label="Filter by topic" placeholder="Filter: a part of a name, or orders.*" value=${q} /></div>
    <div class="card">${
      shown
        ? html`<${Rows} model=${shown} view=${view} page=${page} count=${count} q=${q} />`
        : error
          ? html`<${Failure} error=${error} />`
          : html`<${Loading} rows=${6} />`
    }</div>`;
}

function Rows({ model, view, page, count, q }) {
  const known = useStore(session);
  const nowMs = useNow();
  const order = useRef({ view: null, names: [] });
  if (order.current.view !== view) order.current = { view, names: model.topics.map(({ topic }) => topic) };
  const rows = inOrderOf(order.current.names, model.topics, ({ topic }) => topic);
  if (!rows.length) {
    return html`<${Empty} title=${q ? "No topic matches" : "No dead letters"}>
      ${
        q
          ? "No topic with such a name has dead letters."
          : "A message comes here when it is returned after its last delivery, or when a consumer rejects it."
      }<//>`;
  }
  const ask = (dialog) => () => openDialog(dialog);
  const columns = [
    {
      label: "Topic",
      cell: (row) => html`<a href=${topicUrl(row.topic, "messages", { state: "dead" })}><${Name}>${row.topic}<//></a>`,
    },
    {
      label: "Dead letters",
      isNumber: true,
      mark: (row) => row.grown > 0 && "wrm",
      cell: (row) => format.count(row.dead),
    },
    {
      label: "In 15 min",
      isNumber: true,
      title: "Growth in the last 15 minutes",
      cell: (row) => (row.grown > 0 ? `+${format.count(row.grown)}` : format.count(row.grown)),
    },
    {
      label: "Oldest",
      isNumber: true,
      hide: "phone",
      cell: (row) => format.age(format.secondsSince(row.oldestAtMs, nowMs)),
    },
    {
      label: "In",
      hide: "phone",
      cell: (row) => html`<a href=${topicUrl(row.deadLetterTopic)}><${Name}>${row.deadLetterTopic}<//></a>`,
    },
    {
      label: "Acts",
      isLabelHidden: true,
      className: "acts-cell",
      cell: (row) =>
        rightsOn(known, row.topic).has("admin") &&
        html`<${More} label=${`Acts on the dead letters of ${row.topic}`} items=${[
          ["Redrive…", ask(() => html`<${Redrive} topic=${row.topic} number=${row.dead} />`)],
          ["Delete…", ask(() => html`<${DropDead} topic=${row.topic} number=${row.dead} />`), true],
        ]} />`,
    },
  ];
  const total = model.matching;
  const first = (page - 1) * count + 1;
  const last = first + rows.length - 1;
  const go = (to) => () => setQuery({ page: to === 1 ? null : to });
  return html`<${Table} caption="Topics with dead letters" columns=${columns} rows=${rows}
      keyOf=${({ topic }) => topic} />
    <${Pager} text=${`${pageText(first, last, total)}, by growth`}
        onPrevious=${page > 1 && go(page - 1)} onNext=${last < total && go(page + 1)} />`;
}
