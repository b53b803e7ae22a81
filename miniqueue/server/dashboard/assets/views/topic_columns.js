// The columns of lists of topics: the same in the overview and in the list of all.

import * as format from "../lib/format.js";
import { topicUrl } from "../lib/routes.js";
import { html } from "../lib/ui.js";
import { Name, Pill, Spark } from "../parts/marks.js";

/** Return the columns; the link of a row leads to the topic. */
export const topicColumns = (nowMs) => [
  {
    label: "Topic",
    sort: "topic",
    className: "topic-name",
    cell: (row) =>
      html`<a href=${topicUrl(row.topic)}><${Name}>${row.topic}<//></a><span class="only-phone">
        ${row.state !== "fine" && row.state !== "idle" && html`<${Pill} kind=${row.state} paused=${row.paused} />`}
          </span>`,
  },
  {
    label: "State",
    sort: "state",
    hide: "phone",
    cell: (row) => html`<${Pill} kind=${row.state} paused=${row.paused} />`,
  },
  {
    label: "Ready",
    sort: "ready",
    isNumber: true,
    mark: (row) => row.state === "behind" && "hot",
    cell: (row) => format.count(row.ready),
  },
  {
    label: "Ready, 15 min",
    className: "spark-cell",
    hide: "medium",
    cell: (row) => html`<${Spark} values=${row.readyHistory} />`,
  },
  {
    label: "Oldest",
    sort: "oldest",
    isNumber: true,
    cell: (row) => format.age(format.secondsSince(row.oldestAtMs, nowMs)),
  },
  {
    label: "In/s",
    title: "Published per second",
    sort: "published",
    isNumber: true,
    hide: "phone",
    cell: (row) => format.rate(row.publishedPerSecond),
  },
  {
    label: "Acked/s",
    title: "Acknowledged per second",
    sort: "acknowledged",
    isNumber: true,
    hide: "phone",
    cell: (row) => format.rate(row.acknowledgedPerSecond),
  },
  {
    label: "Returned/s",
    title: "Returned per second",
    sort: "returned",
    isNumber: true,
    hide: "medium",
    cell: (row) => format.rate(row.returnedPerSecond),
  },
  {
    label: "Consumers",
    sort: "consumers",
    isNumber: true,
    hide: "phone",
    mark: (row) => row.state === "no-consumers" && "wrm",
    cell: (row) => format.count(row.consumers),
  },
  {
    label: "Dead",
    title: "Dead letters",
    sort: "dead",
    isNumber: true,
    hide: "phone",
    mark: (row) => row.state === "dead" && "wrm",
    cell: (row) => format.count(row.dead),
  },
];
