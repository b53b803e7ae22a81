// One topic: its title, its acts, its tabs. The tabs are links; each shows a part of the same live read model.

import * as format from "../lib/format.js";
import { useLive } from "../lib/models.js";
import { rightsOn } from "../lib/rights.js";
import { queryString, TABS, topicUrl, viewUrl } from "../lib/routes.js";
import { preferences, route, session } from "../lib/store.js";
import { html, useLayoutEffect, useRef, useStore } from "../lib/ui.js";
import { Publish } from "../acts/publish.js";
import { Redrive } from "../acts/redrive.js";
import { DeleteTopic, Pause, Purge, resume } from "../acts/topic_acts.js";
import { CopyButton } from "../parts/copy.js";
import { More, openDialog } from "../parts/dialog.js";
import { Name, Pill } from "../parts/marks.js";
import { TitleBar } from "../parts/shell.js";
import { Failure, Loading } from "../parts/states.js";
import { TopicConsumers } from "./topic_consumers.js";
import { Groups } from "./groups.js";
import { Log } from "./log.js";
import { Messages } from "./messages.js";
import { Partitions } from "./partitions.js";
import { Settings } from "./settings.js";
import { Summary } from "./topic_summary.js";

const WORDS = {
  summary: "Summary",
  messages: "Messages",
  groups: "Groups",
  partitions: "Partitions",
  consumers: "Consumers",
  settings: "Settings",
  log: "Log",
};
const CONTENTS = {
  summary: Summary,
  messages: Messages,
  groups: Groups,
  partitions: Partitions,
  consumers: TopicConsumers,
  settings: Settings,
  log: Log,
};

export function Topic() {
  const { topic, tab } = useStore(route);
  const { model, error } = useLive(`topic${queryString({ topic })}`);
  const rights = useRights(topic, model);
  const Content = CONTENTS[tab];
  const isGone = error?.code === "NOTOPIC";
  const path =
    tab === "summary"
      ? [["Topics", viewUrl("topics")]]
      : [
          ["Topics", viewUrl("topics")],
          [topic, topicUrl(topic)],
        ];
  const word = tab === "summary" ? topic : WORDS[tab].toLowerCase();
  return html`<${TitleBar} title=${topic} documentTitle=${tab === "summary" ? topic : `${topic}, ${word}`}
      path=${path} here=${tab === "summary" ? topic : word}
      pill=${html`${model && html`<${Pill} kind=${model.state} paused=${model.paused} />`}
        <${CopyButton} label="Copy the name of the topic" text=${topic} isBare=${true} isKey=${true} />`}
      actions=${!isGone && html`<${Actions} topic=${topic} model=${model} rights=${rights} tab=${tab} />`} />
    ${!isGone && html`<${Tabs} topic=${topic} tab=${tab} />`}
    ${model?.isDeadLetters && html`<${OriginNote} origin=${model.deadLettersOf} />`}
    ${
      model &&
      model.state === "paused" &&
      html`<${PausedNote} topic=${topic} model=${model} mayResume=${rights.has("admin")} />`
    }
    ${
      error && !model
        ? html`<div class="card"><${Failure} error=${error} topic=${topic} /></div>`
        : !model
          ? html`<div class="card"><${Loading} rows=${8} /></div>`
          : html`<${Content} topic=${topic} model=${model} rights=${rights} />`
    }`;
}

function Tabs({ topic, tab }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const current = element.current.querySelector("[aria-current]");
    element.current.scrollLeft = current.offsetLeft - element.current.clientWidth / 2;
  }, [tab]);
  return html`<nav class="tabs" aria-label="Parts of the topic" ref=${element}>
    ${TABS.map(
      (name) => html`<a href=${topicUrl(topic, name)} aria-current=${name === tab ? "page" : undefined}>
      ${WORDS[name]}</a>`,
    )}</nav>`;
}

/** The rights on a topic: as the broker says, until then as the session says. */
function useRights(topic, model) {
  const known = useStore(session);
  return model?.rights ? new Set(model.rights) : rightsOn(known, topic);
}

function Actions({ topic, model, rights, tab }) {
  const ask = (dialog) => () => openDialog(dialog);
  const isPaused = model?.paused || model?.pausedInUntilMs || model?.pausedOutUntilMs;
  const redrive = ask(
    () => html`<${Redrive} topic=${topic} number=${model.dead} returnedPerSecond=${model.returnedPerSecond} />`,
  );
  return html`${
    rights.has("admin") &&
    model?.dead > 0 &&
    html`<button class=${tab === "messages" ? "btn pri" : "btn"} onClick=${redrive}>Redrive…</button>`
  }
    ${
      rights.has("publish") &&
      html`<button class="btn" onClick=${ask(() => html`<${Publish} topic=${topic} />`)}>Publish…</button>`
    }
    ${
      rights.has("admin") &&
      model &&
      (isPaused
        ? html`<button class="btn" onClick=${() => resume(topic)}>Resume</button>`
        : html`<button class="btn" onClick=${ask(() => html`<${Pause} topic=${topic} />`)}>Pause…</button>`)
    }
    ${
      rights.has("admin") &&
      model &&
      html`<${More} label="More acts on the topic" items=${[
        ["Purge…", ask(() => html`<${Purge} topic=${topic} model=${model} />`), true],
        ["Delete…", ask(() => html`<${DeleteTopic} topic=${topic} model=${model} />`), true],
      ]} />`
    }`;
}

/** A topic of dead letters, with the way to where they came from. */
function OriginNote({ origin }) {
  const reasons = origin && topicUrl(origin, "messages", { state: "dead" });
  return html`<p class="s2 line">This topic receives dead letters.${
    origin &&
    html` Those of <a href=${topicUrl(origin)}><${Name}>${origin}<//></a> are also shown <a href=${reasons}>there, by
      reason</a>.`
  }</p>`;
}

function PausedNote({ topic, model, mayResume }) {
  const { zone } = useStore(preferences);
  const until = (ms) =>
    ms >= format.FOREVER_MS ? "until it is resumed" : `until ${format.time(ms, model.nowMs, zone)}`;
  const parts = [
    model.pausedOutUntilMs && `Nothing is delivered ${until(model.pausedOutUntilMs)}.`,
    model.pausedInUntilMs && `Publishes are rejected ${until(model.pausedInUntilMs)}.`,
  ].filter(Boolean);
  if (!parts.length) return null;
  return html`<div class="note paused"><svg aria-hidden="true"><use href="#i-pause" /></svg><b>
    <${Name}>${topic}<//> is paused.</b> <span>${parts.join(" ")}</span>
      ${mayResume && html`<button class="btn right" onClick=${() => resume(topic)}>Resume</button>`}</div>`;
}
