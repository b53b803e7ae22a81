// Schedules by their next tick, and the topics with delayed messages.

import * as format from "../lib/format.js";
import { useGet, useRead } from "../lib/models.js";
import { queryString, topicUrl } from "../lib/routes.js";
import { rightsOn } from "../lib/rights.js";
import { brokerNow, session } from "../lib/store.js";
import { html, useSeconds, useStore } from "../lib/ui.js";
import { DeleteSchedule, FireSchedule, SetSchedule } from "../acts/schedule_acts.js";
import { More, openDialog } from "../parts/dialog.js";
import { Name, Time } from "../parts/marks.js";
import { TitleBar } from "../parts/shell.js";
import { Card, Empty } from "../parts/states.js";
import { Table } from "../parts/table.js";

export function Schedules() {
  const rights = rightsOn(useStore(session), null);
  const schedules = useGet(["schedules"], { count: 1000 }, rights.has("monitor"));
  useSeconds();
  const set =
    rights.has("admin") &&
    html`<button class="btn"
      onClick=${() => openDialog(() => html`<${SetSchedule} />`)}>Set a schedule…</button>`;
  return html`<${TitleBar} title="Schedules" actions=${set} isLiveShown=${false} />
    ${
      rights.has("monitor")
        ? html`<${Card} title="Schedules" id="h-schedules" error=${schedules.error}
            isLoading=${schedules.isLoading && !schedules.answer} retry=${schedules.reload}>
              ${
                schedules.answer &&
                html`<${Rows} schedules=${schedules.answer.schedules} rights=${rights} />`
              }<//>`
        : html`<div class="card">
          <${Empty} title="You may not view schedules">This requires the role monitor for *.<//></div>`
    }
    <${Delayed} />`;
}

function Rows({ schedules, rights }) {
  if (!schedules.length)
    return html`<${Empty} title="No schedules">
      A schedule publishes the same message to a topic repeatedly, each tick exactly once.<//>`;
  const nowMs = brokerNow();
  const ask = (dialog) => () => openDialog(dialog);
  const rows = [...schedules].sort((a, b) => (a.nextAtMs ?? Infinity) - (b.nextAtMs ?? Infinity));
  const columns = [
    { label: "Schedule", cell: (row) => html`<${Name}>${row.name}<//>` },
    { label: "Topic", cell: (row) => html`<a href=${topicUrl(row.topic)}><${Name}>${row.topic}<//></a>` },
    { label: "Rule", className: "m", hide: "phone", cell: (row) => ruleOf(row) },
    { label: "Next tick", cell: (row) => html`<${Time} ms=${row.nextAtMs} nowMs=${nowMs} />` },
    {
      label: "In",
      isNumber: true,
      cell: (row) =>
        row.nextAtMs ? format.age(Math.max(0, Math.round((row.nextAtMs - nowMs) / 1000))) : format.UNKNOWN,
    },
    { label: "Missed ticks", hide: "medium", cell: (row) => row.missed },
    { label: "Until", hide: "medium", cell: (row) => html`<${Time} ms=${row.untilMs} nowMs=${nowMs} />` },
    rights.has("admin") && {
      label: "Acts",
      isLabelHidden: true,
      className: "acts-cell",
      cell: (row) =>
        html`<${More} label=${`Acts on the schedule ${row.name}`} items=${[
          ["Fire now…", ask(() => html`<${FireSchedule} name=${row.name} topic=${row.topic} />`)],
          ["Delete…", ask(() => html`<${DeleteSchedule} name=${row.name} topic=${row.topic} />`), true],
        ]} />`,
    },
  ].filter(Boolean);
  return html`<${Table} caption="Schedules" columns=${columns} rows=${rows} keyOf=${({ name }) => name} />`;
}

function ruleOf({ cron, tz, every }) {
  if (cron) return `${cron}${tz && tz !== "UTC" ? ` ${tz}` : ""}`;
  return every === undefined ? format.UNKNOWN : `every ${typeof every === "number" ? format.age(every) : every}`;
}

function Delayed() {
  const { answer, error, isLoading, reload } = useRead(`topics${queryString({ sort: "-delayed", count: 10 })}`, 5000);
  const rows = (answer?.topics ?? []).filter(({ delayed }) => delayed > 0);
  return html`<${Card} title="Delayed messages" id="h-delayed" note="the topics with the most" error=${error}
      isLoading=${isLoading && !answer} retry=${reload}>${
        answer &&
        (rows.length
          ? html`<${Table} caption="Topics with delayed messages" columns=${[
              {
                label: "Topic",
                cell: (row) =>
                  html`<a href=${topicUrl(row.topic, "messages", { state: "delayed" })}><${Name}>${row.topic}<//></a>`,
              },
              { label: "Delayed", isNumber: true, cell: (row) => format.count(row.delayed) },
              { label: "Ready", isNumber: true, cell: (row) => format.count(row.ready) },
            ]} rows=${rows} keyOf=${({ topic }) => topic} />`
          : html`<${Empty} title="Nothing is delayed">
          A message is delayed by its publisher, or by a consumer that returns it with a delay.<//>`)
      }<//>`;
}
