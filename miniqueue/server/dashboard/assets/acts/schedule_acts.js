// Acts on schedules: set, fire now, delete.

import { act } from "../lib/api.js";
import { html, useState } from "../lib/ui.js";
import { Ask } from "../parts/dialog.js";
import { Name } from "../parts/marks.js";
import { say } from "../parts/toast.js";
import { Field, Select, Text } from "./fields.js";

const MISSED = { all: "all: each missed tick publishes", one: "one: only the latest does", none: "none" };

/** Set a schedule. */
export function SetSchedule() {
  const [fields, setFields] = useState({
    name: "",
    topic: "",
    rule: "cron",
    cron: "",
    tz: "",
    every: "",
    missed: "all",
    text: "",
  });
  const set = (name) => (value) => setFields((before) => ({ ...before, [name]: value }));
  const { name, topic, rule, cron, tz, every, missed, text } = fields;
  const run = () =>
    act(
      "PUT",
      ["schedules", name],
      {},
      { topic, text, missed, ...(rule === "cron" ? { cron, ...(tz && { tz }) } : { every }) },
    );
  const done = () => {
    say(`Schedule ${name} is set.`);
  };
  const isReady = name !== "" && topic !== "" && (rule === "cron" ? cron : every) !== "";
  return html`<${Ask} title="Set a schedule" verb="Set" run=${run} onDone=${done} isReady=${isReady}>
    <p class="s2">A schedule publishes the same message to a topic repeatedly. One with this name is replaced.</p>
    <div class="pair"><${Field} label="Name" value=${name} onChange=${set("name")} />
      <${Field} label="Topic" value=${topic} onChange=${set("topic")} /></div>
    <${Select} label="Rule" value=${rule} onChange=${set("rule")}
        choices=${{ cron: "cron expression", every: "interval" }} />
    ${
      rule === "cron"
        ? html`<div class="pair">
            <${Field} label="Expression" value=${cron} onChange=${set("cron")}
              hint="minute hour day month weekday: 0 9 * * MON-FRI" />
            <${Field} label="Time zone" value=${tz} onChange=${set("tz")} hint="Empty: UTC" /></div>`
        : html`<${Field} label="Interval" value=${every} onChange=${set("every")}
            hint="Such as 30s, 10m, or 1h30m" />`
    }
    <${Select} label="Missed ticks" value=${missed} onChange=${set("missed")} choices=${MISSED} />
    <${Text} label="Payload" rows="3" value=${text} onChange=${set("text")} />
  <//>`;
}

/** Publish the message of a schedule now. */
export function FireSchedule({ name, topic }) {
  const run = () => act("POST", ["schedules", name, "fire"]);
  const done = (answer) => {
    say(`Schedule ${name} published ${answer.id} to ${topic}.`);
  };
  return html`<${Ask} title="Fire the schedule now?" verb="Fire now" run=${run} onDone=${done}>
    <p class="s2">The message of <b><${Name}>${name}<//></b> is published to <b>
      <${Name}>${topic}<//></b> now. Its ticks stay as they are.</p><//>`;
}

/** Delete a schedule. */
export function DeleteSchedule({ name, topic }) {
  const run = () => act("DELETE", ["schedules", name]);
  const done = () => {
    say(`Schedule ${name} was deleted.`);
  };
  return html`<${Ask} title="Delete the schedule?" verb="Delete schedule" isDanger=${true} confirm=${name}
      confirmNoun="schedule" run=${run} onDone=${done}>
    <p class="s2">Nothing more is published to <b>
      <${Name}>${topic}<//></b> by it. Messages that it has published stay.</p><//>`;
}
