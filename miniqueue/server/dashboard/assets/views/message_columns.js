// The columns of lists of messages, by their state; payloads are one line that the broker has cut.

import * as format from "../lib/format.js";
import { messageUrl } from "../lib/message_list.js";
import { html } from "../lib/ui.js";
import { Name, Time } from "../parts/marks.js";

/** Return the columns; the link of a row leads to the message. */
export function messageColumns({ topic, query, nowMs, deadLetterTopic }) {
  const { state } = query;
  const isDead = state === "dead";
  const place = isDead ? deadLetterTopic : topic;
  return [
    {
      label: isDead ? "Dead letter" : "Id",
      className: "m",
      cell: (row) => html`<a href=${messageUrl(topic, query, row.id, place)}>${row.id}</a>`,
    },
    isDead && { label: "Was", className: "m", hide: "phone", cell: (row) => row.origin?.id ?? format.UNKNOWN },
    isDead && { label: "Died", cell: (row) => html`<${Time} ms=${row.origin?.diedAtMs} nowMs=${nowMs} />` },
    isDead && { label: "Reason", className: "reason", cell: (row) => html`<${Name}>${reasonOf(row)}<//>` },
    state === "delayed" && { label: "Due", cell: (row) => html`<${Time} ms=${row.dueAtMs} nowMs=${nowMs} />` },
    !isDead && {
      label: "Published",
      hide: "phone",
      cell: (row) => html`<${Time} ms=${row.publishedAtMs} nowMs=${nowMs} />`,
    },
    !isDead && { label: "Deliveries", isNumber: true, cell: (row) => format.count(row.deliveries) },
    {
      label: "Key",
      hide: "medium",
      className: "m",
      cell: (row) => (row.key === undefined ? format.UNKNOWN : html`<${Name}>${row.key}<//>`),
    },
    { label: "Size", isNumber: true, hide: "phone", cell: (row) => format.bytes(row.bytes) },
    {
      label: "Payload",
      className: "payload",
      hide: "phone",
      cell: (row) => html`<span dir="auto">${row.text ?? row.hex ?? ""}</span>`,
    },
  ].filter(Boolean);
}

/** Return the reason of a dead letter; what consumers wrote is in quotation marks. */
export function reasonOf(message) {
  return shownReason(message.origin?.reason) + (message.failure ? ` “${message.failure}”` : "");
}

/** Return a reason as it is shown: those of the broker as they are, those of consumers in quotation marks. */
export function shownReason(reason) {
  if (!format.isKnown(reason) || reason === "") return "without a reason";
  return ["max_deliveries", "limit", "expired"].includes(reason) ? reason : `“${reason}”`;
}

/** What a reason means. */
export function reasonMeaning(reason) {
  return (
    {
      max_deliveries: "returned after its last delivery",
      limit: "the topic was full",
      expired: "its time to live elapsed",
    }[reason] ?? "rejected by a consumer"
  );
}
