// The page of the broker: reads who is signed in, shows the view of the URL, and keeps it live.
//
//   lib/      formats, URLs, requests, the live stream, keys: no markup
//   parts/    what several views show: shell, tables, charts, dialogs, the payload
//   views/    one file for each view
//   vendor/   Preact with htm, and uPlot, unmodified

import { request } from "./lib/api.js";
import { followKeys } from "./lib/keys.js";
import { followPage } from "./lib/live.js";
import { followLinks, go, readLocation } from "./lib/navigation.js";
import { BASE, viewUrl } from "./lib/routes.js";
import { loadPreferences, route, session, setBrokerNow } from "./lib/store.js";
import { html, render, useStore } from "./lib/ui.js";
import { Shell, TitleBar } from "./parts/shell.js";
import { Empty } from "./parts/states.js";
import { Broker } from "./views/broker.js";
import { Consumers } from "./views/consumers.js";
import { Dead } from "./views/dead.js";
import { Message } from "./views/message.js";
import { Overview } from "./views/overview.js";
import { Schedules } from "./views/schedules.js";
import { SignIn } from "./views/sign_in.js";
import { Topic } from "./views/topic.js";
import { Topics } from "./views/topics.js";

const VIEWS = {
  overview: Overview,
  topics: Topics,
  topic: Topic,
  message: Message,
  dead: Dead,
  schedules: Schedules,
  consumers: Consumers,
  broker: Broker,
};

const Unknown = () =>
  html`<${TitleBar} title="Not a page" isLiveShown=${false} />
    <div class="card"><${Empty} title="This address shows nothing">
      A link may have been cut. <a href=${viewUrl("overview")}>Overview</a><//></div>`;

async function signOut() {
  await request("DELETE", `${BASE}/session`).catch(() => {});
  session.set({ user: null, signedIn: false, needsSignIn: true, hasEnded: false });
  go(viewUrl("sign-in"));
}

function App() {
  const known = useStore(session);
  const { view, topic, id } = useStore(route);
  if (known === null) return html`<p class="starting" role="status">Connecting to the broker …</p>`;
  if (known.failure) {
    return html`<div class="starting" role="alert"><p>The broker does not answer.</p>
      <button class="btn" onClick=${() => location.reload()}>Try again</button></div>`;
  }
  if (!known.signedIn || (view === "sign-in" && known.needsSignIn)) return html`<${SignIn} />`;
  const View = VIEWS[view] ?? Unknown;
  return html`<${Shell} signOut=${signOut}><${View} key=${`${view} ${topic ?? ""} ${id ?? ""}`} /><//>`;
}

async function start() {
  loadPreferences();
  readLocation();
  followLinks();
  followKeys();
  followPage();
  const place = document.getElementById("app");
  place.replaceChildren();
  render(html`<${App} />`, place);
  try {
    const answer = await request("GET", `${BASE}/session`);
    setBrokerNow(answer.nowMs);
    session.set(answer);
    if (route.value.view === "sign-in") go(viewUrl("overview"));
  } catch (error) {
    if (error.status === 401) session.set({ signedIn: false, needsSignIn: true, user: null });
    else session.set({ failure: error.message });
  }
}

start();
