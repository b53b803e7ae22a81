// The partitions of a topic: how much of each is not acknowledged, and what of its log is stored.

import * as format from "../lib/format.js";
import { setQuery } from "../lib/navigation.js";
import { topicUrl } from "../lib/routes.js";
import { parseSort, sorted } from "../lib/sorting.js";
import { route } from "../lib/store.js";
import { html, useStore } from "../lib/ui.js";
import { Meter, Time } from "../parts/marks.js";
import { Card } from "../parts/states.js";
import { Table } from "../parts/table.js";

export function Partitions({ topic, model, rights }) {
  const { query } = useStore(route);
  const partitions = model.partitions ?? [];
  const order = parseSort(query.sort, "partition");
  const high = Math.max(1, ...partitions.map(({ lag }) => lag ?? 0));
  const valueOf = (row) => (order.key === "partition" ? Number.parseFloat(row.partition) : row[order.key]);
  const columns = [
    {
      label: "Partition",
      sort: "partition",
      cell: (row) =>
        rights.has("consume")
          ? html`<a href=${topicUrl(topic, "log", { partition: row.partition })}>${row.partition}</a>`
          : row.partition,
    },
    {
      label: "Not acknowledged",
      sort: "lag",
      isNumber: true,
      title: "By the group that lags furthest",
      cell: (row) => format.count(row.lag),
    },
    {
      label: "Compared to the others",
      isLabelHidden: true,
      className: "meter-cell",
      hide: "phone",
      cell: (row) =>
        html`<${Meter} part=${(row.lag ?? 0) / high}
            label=${`compared to the others: ${Math.round((100 * (row.lag ?? 0)) / high)} %`} />`,
    },
    {
      label: "Earliest offset",
      sort: "earliest",
      isNumber: true,
      hide: "phone",
      cell: (row) => format.exact(row.earliest),
    },
    { label: "End", sort: "end", isNumber: true, cell: (row) => format.exact(row.end) },
    {
      label: "Earliest message",
      sort: "earliestAtMs",
      hide: "phone",
      cell: (row) => html`<${Time} ms=${row.earliestAtMs} nowMs=${model.nowMs} />`,
    },
  ];
  return html`<${Card} title="Partitions" note=${format.plural(partitions.length, "partition")}>
    <${Table} caption="Partitions" columns=${columns} rows=${sorted(partitions, order, valueOf)}
        keyOf=${(row) => row.partition}
    sort=${order} onSort=${(sort) => setQuery({ sort: sort === "partition" ? null : sort })} /><//>`;
}
