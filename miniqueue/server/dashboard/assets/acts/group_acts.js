// Acts on a group: create, seek with a dry run first, delete.

import { act } from "../lib/api.js";
import { count, exact } from "../lib/format.js";
import { html, useEffect, useState } from "../lib/ui.js";
import { Ask } from "../parts/dialog.js";
import { Name } from "../parts/marks.js";
import { ErrorLine } from "../parts/states.js";
import { say } from "../parts/toast.js";
import { Field, Select } from "./fields.js";

const STARTS = {
  earliest: "the earliest stored message",
  latest: "the end: only new messages",
  other: "an id or a time",
};

function Start({ start, setStart, other, setOther, label }) {
  return html`<${Select} label=${label} value=${start} onChange=${setStart} choices=${STARTS} />
    ${
      start === "other" &&
      html`<${Field} label="Id or time" value=${other} onChange=${setOther}
        hint="0-17, one id per partition as 0-17,1-5, or 2026-12-01T08:00:00Z" />`
    }`;
}

/** Create a group. */
export function CreateGroup({ topic }) {
  const [name, setName] = useState("");
  const [start, setStart] = useState("earliest");
  const [other, setOther] = useState("");
  const from = start === "other" ? other : start;
  const run = () => act("PUT", ["topics", topic, "groups", name], { from });
  return html`<${Ask} title="Create a group" verb="Create" run=${run}
      onDone=${() => say(`Group ${name} of ${topic} was created.`)} isReady=${name !== "" && from !== ""}>
    <p class="s2">A group of <b><${Name}>${topic}<//></b> gets every message, whatever other groups do.</p>
    <${Field} label="Name" value=${name} onChange=${setName} />
    <${Start} label="It begins at" start=${start} setStart=${setStart} other=${other} setOther=${setOther} />
  <//>`;
}

/** Move a group to another position; a dry run says how many messages it would get. */
export function Seek({ topic, group }) {
  const [start, setStart] = useState("earliest");
  const [other, setOther] = useState("");
  const [dryRun, setDryRun] = useState({ counts: null, error: null });
  const to = start === "other" ? other : start;
  useEffect(() => {
    setDryRun({ counts: null, error: null });
    if (!to) return undefined;
    const aborter = new AbortController();
    const count = () =>
      act("POST", ["topics", topic, "groups", group, "seek"], { to, dry_run: "true" }, undefined, {
        signal: aborter.signal,
      }).then(
        (counts) => setDryRun({ counts, error: null }),
        (error) => aborter.signal.aborted || setDryRun({ counts: null, error }),
      );
    const timer = setTimeout(count, 300);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [to]);
  const run = () => act("POST", ["topics", topic, "groups", group, "seek"], { to });
  const { counts, error } = dryRun;
  const done = (result) =>
    say(
      `Group ${group} of ${topic} was moved: ${exact(result.after)} not acknowledged, ${exact(result.before)} before.`,
    );
  return html`<${Ask} title="Seek the group?" verb="Seek" isDanger=${true} confirm=${group}
      confirmNoun="group" run=${run} onDone=${done} isReady=${counts !== null}>
    <p class="s2">Group <b><${Name}>${group}<//></b> of <b>
      <${Name}>${topic}<//></b> continues at another position. Its leases and returned messages are forgotten.</p>
    <${Start} label="To" start=${start} setStart=${setStart} other=${other} setOther=${setOther} />
    <p class="n" role="status">
      ${
        counts
          ? html`Dry run: <b>${count(counts.after)}</b> not acknowledged after the seek, <b>
        ${count(counts.before)}</b> now.`
          : error
            ? ""
            : "Dry run …"
      }</p>
    <${ErrorLine} error=${error} />
  <//>`;
}

/** Delete a group. */
export function DeleteGroup({ topic, group, lag }) {
  const run = () => act("DELETE", ["topics", topic, "groups", group]);
  return html`<${Ask} title="Delete the group?" verb="Delete group" isDanger=${true} confirm=${group}
      confirmNoun="group" run=${run} onDone=${() => say(`Group ${group} of ${topic} was deleted.`)}>
    <p class="s2">Group <b><${Name}>${group}<//></b> of <b><${Name}>${topic}<//></b> and its position are removed,
      with ${exact(lag)} messages that it has not acknowledged. Other groups keep them.</p><//>`;
}
