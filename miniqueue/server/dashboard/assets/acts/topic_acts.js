// Acts on a whole topic: pause, resume, purge, delete.

import { act } from "../lib/api.js";
import { age, exact, plural } from "../lib/format.js";
import { go } from "../lib/navigation.js";
import { viewUrl } from "../lib/routes.js";
import { html, useState } from "../lib/ui.js";
import { Ask } from "../parts/dialog.js";
import { Name } from "../parts/marks.js";
import { say } from "../parts/toast.js";
import { Field, isNumber, Select } from "./fields.js";

const SIDES = { out: "out: nothing is delivered", in: "in: publishes are rejected", both: "both" };
const EFFECTS = { out: "delivers nothing", in: "rejects publishes", both: "delivers nothing and rejects publishes" };

/** Pause a topic, or one of its groups. */
export function Pause({ topic, group }) {
  const [side, setSide] = useState("out");
  const [minutes, setMinutes] = useState("");
  const seconds = minutes === "" ? null : Number(minutes) * 60;
  const path = group === undefined ? ["topics", topic] : ["topics", topic, "groups", group];
  const run = () => act("POST", [...path, "pause"], { ...(group === undefined && { side }), seconds });
  const until = seconds === null ? "until it is resumed" : `for ${plural(Number(minutes), "minute")}`;
  const subject = group === undefined ? topic : `Group ${group} of ${topic}`;
  const done = () =>
    say(`${subject} ${group === undefined ? EFFECTS[side] : "gets nothing"} ${until}.`, {
      label: "Resume",
      run: () => resume(topic, group),
    });
  return html`<${Ask} title=${group === undefined ? "Pause the topic?" : "Pause the group?"} verb="Pause" run=${run}
      onDone=${done} isReady=${isNumber(minutes)}>
    <p class="s2"><b><${Name}>${subject}<//></b>. No message is lost. Leased messages can be settled as usual.</p>
    ${group === undefined && html`<${Select} label="Side" value=${side} onChange=${setSide} choices=${SIDES} />`}
    <${Field} label="For, in minutes" value=${minutes} onChange=${setMinutes}
        inputmode="decimal" hint="Empty: until it is resumed" />
  <//>`;
}

/** Resume a topic or a group at once: it loses nothing, so that it needs no question. */
export async function resume(topic, group) {
  const path = group === undefined ? ["topics", topic] : ["topics", topic, "groups", group];
  try {
    await act("POST", [...path, "resume"]);
    say(group === undefined ? `${topic} was resumed.` : `Group ${group} of ${topic} was resumed.`, null);
  } catch (error) {
    say(`${topic} was not resumed: ${error.message}`);
  }
}

/** Record what happens to each message of a topic from now on. */
export function SwitchOnTrace({ topic, seconds }) {
  const set = (trace) => act("PATCH", ["topics", topic], {}, { trace });
  const undo = () =>
    set(false).then(
      () => say(`The trace of ${topic} is off.`),
      (error) => say(`The trace of ${topic} is still on: ${error.message}`),
    );
  const done = () => say(`The trace of ${topic} is on.`, { label: "Undo", run: undo });
  return html`<${Ask} title="Switch on the trace?" verb="Switch on" run=${() => set(true)} onDone=${done}>
    <p class="s2">The broker will record what happens to each message of <b><${Name}>${topic}<//></b>, and keep the
      records for ${age(seconds)}. What happened until now stays unknown. Publishing and consuming cost the broker a
      little more: 5 to 10 % of its work, or a quarter if each acknowledgment is committed by itself.</p><//>`;
}

const STATES = { "": "ready and delayed messages", ready: "ready messages", delayed: "delayed messages" };

/** Remove the waiting messages of a topic, or of one group. */
export function Purge({ topic, model }) {
  const [state, setState] = useState("");
  const [group, setGroup] = useState("");
  const groups = Object.fromEntries([
    ["", "all groups"],
    ...(model.groups ?? []).map(({ group: name }) => [name, name]),
  ]);
  const [ready, delayed] = [model.ready ?? 0, model.delayed ?? 0];
  const lost = state === "ready" ? ready : state === "delayed" ? delayed : ready + delayed;
  const run = async () => {
    const { task } = await act("POST", ["topics", topic, "purge"], { state, group, task: "true" });
    return {
      task,
      of: group ? null : lost,
      done: (number) => `${plural(number, "message")} of ${topic} ${number === 1 ? "was" : "were"} removed.`,
    };
  };
  return html`<${Ask} title="Purge the topic?" verb="Purge" isDanger=${true} confirm=${topic} run=${run}
      onDone=${say}>
    <p class="s2">${exact(lost)} ${STATES[state]} ${
      group ? "at most, of one group," : ""
    } are removed. This cannot be undone. Leased messages, settings, groups, and dead letters stay.</p>
    <${Select} label="Remove" value=${state} onChange=${setState} choices=${STATES} />
    ${
      (model.groups ?? []).length > 1 &&
      html`<${Select} label="Of" value=${group} onChange=${setGroup} choices=${groups} />`
    }
  <//>`;
}

/** Delete a topic. */
export function DeleteTopic({ topic, model }) {
  const unsettled = (model.ready ?? 0) + (model.leased ?? 0) + (model.delayed ?? 0);
  const run = () => act("DELETE", ["topics", topic]);
  const done = () => {
    say(`${topic} was deleted.`);
    go(viewUrl("topics"));
  };
  const [be, stay] = [unsettled === 1 ? "is" : "are", model.dead === 1 ? "stays" : "stay"];
  const groups = plural((model.groups ?? []).length, "group");
  const letters =
    model.dead > 0 && html` ${plural(model.dead, "dead letter")} in <${Name}>${model.deadLetterTopic}<//> ${stay}.`;
  return html`<${Ask} title="Delete the topic?" verb="Delete topic" isDanger=${true} confirm=${topic} run=${run}
      onDone=${done}>
    <p class="s2">${plural(unsettled, "message")} that ${be} not acknowledged, ${groups}, and the settings are
      removed.${letters} This cannot be undone. A publish creates the topic again, with the default settings.</p>
  <//>`;
}
