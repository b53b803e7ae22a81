// Redrive dead letters: all of a topic, those of one reason, or one.

import { act } from "../lib/api.js";
import { age, exact, plural, rate } from "../lib/format.js";
import { html, useState } from "../lib/ui.js";
import { Ask } from "../parts/dialog.js";
import { Name } from "../parts/marks.js";
import { say } from "../parts/toast.js";
import { Field, isNumber } from "./fields.js";

/** Move dead letters of a topic back to it; with a reason, only those that have it. */
export function Redrive({ topic, number, reason, returnedPerSecond }) {
  const [limit, setLimit] = useState("");
  const [perSecond, setPerSecond] = useState("50");
  const moved = limit === "" ? number : Math.min(number, Number(limit));
  const run = async () => {
    const { task } = await act("POST", ["topics", topic, "messages", "redrive"], {
      state: "dead",
      reason,
      limit,
      rate: perSecond,
      task: "true",
    });
    return {
      task,
      of: moved,
      done: (count) => `${plural(count, "dead letter")} ${count === 1 ? "was" : "were"} moved back to ${topic}.`,
    };
  };
  const again =
    returnedPerSecond >= 0.1 &&
    `Consumers return ${rate(returnedPerSecond)} messages per second, so some may become dead letters again.`;
  return html`<${Ask} title="Redrive dead letters?" verb=${`Redrive ${exact(moved)}`} run=${run} onDone=${say}
      isReady=${isNumber(limit) && isNumber(perSecond) && moved > 0 && Number(perSecond || 1) > 0}>
    <p class="s2">${plural(number, "dead letter")} of <b><${Name}>${topic}<//></b>
      ${
        reason &&
        html` with the reason <b>${reason}
        </b>`
      } return to the end of the topic, each to the group that dead-lettered it. ${again}</p>
    <${Field} label="At most, in total" value=${limit} onChange=${setLimit} inputmode="numeric" hint="Empty: all" />
    <${Field} label="At most, per second" value=${perSecond} onChange=${setPerSecond}
        inputmode="decimal" hint=${
          perSecond
            ? `${age(moved / Number(perSecond))} at this rate. What was moved stays moved if you stop.`
            : "Empty: as fast as possible"
        } />
  <//>`;
}

/** Delete dead letters of a topic; with a reason, only those that have it. */
export function DropDead({ topic, number, reason }) {
  const run = async () => {
    const { task } = await act("POST", ["topics", topic, "messages", "delete"], {
      state: "dead",
      reason,
      task: "true",
    });
    return {
      task,
      of: number,
      done: (count) => `${plural(count, "dead letter")} of ${topic} ${count === 1 ? "was" : "were"} deleted.`,
    };
  };
  return html`<${Ask} title="Delete dead letters?" verb=${`Delete ${exact(number)}`} isDanger=${true} confirm=${topic}
      run=${run} onDone=${say}>
    <p class="s2">${plural(number, "dead letter")} of <b><${Name}>${topic}<//></b>
      ${reason && html` with the reason <b>${reason}</b>`} ${
        number === 1 ? "is" : "are"
      } removed. This cannot be undone. The topic itself keeps all its messages.</p>
  <//>`;
}
