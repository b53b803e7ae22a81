// What surrounds every view: the sidebar or the bar below, the title bar, banners, dialogs, toasts.

import * as format from "../lib/format.js";
import { tryNow } from "../lib/live.js";
import { isListShown, KEYS } from "../lib/keys.js";
import { setQuery } from "../lib/navigation.js";
import { rolesText } from "../lib/rights.js";
import { viewUrl } from "../lib/routes.js";
import {
  announcement,
  brokerNow,
  clockOffset,
  connection,
  isLive,
  preferences,
  route,
  session,
  totals,
} from "../lib/store.js";
import { html, useEffect, useLayoutEffect, useRef, useSeconds, useState, useStore } from "../lib/ui.js";
import { Dialog, DialogPlace } from "./dialog.js";
import { Icon, Name } from "./marks.js";
import { say, Toasts } from "./toast.js";
import { FindTopic } from "./find.js";

const ENTRIES = [
  ["overview", "home", "Overview"],
  ["topics", "topic", "Topics", (counts) => counts.topics],
  ["dead", "dead", "Dead letters", (counts) => counts.dead],
  ["schedules", "clock", "Schedules", (counts) => counts.schedules],
  ["consumers", "users", "Consumers", (counts) => counts.consumers],
  ["broker", "server", "Broker"],
];

/** The page around a view. */
export function Shell({ signOut, children }) {
  const { view } = useStore(route);
  const current = view === "topic" || view === "message" ? "topics" : view;
  const message = useStore(announcement);
  const isListed = useStore(isListShown);
  const [isFinding, setIsFinding] = useState(false);
  const [isMore, setIsMore] = useState(false);
  const { isLost } = useStore(connection);
  return html`<a class="skip" href="#content" onClick=${skip}>To the content</a>
    <${Sidebar} current=${current} signOut=${signOut} />
    <main id="content" tabindex="-1" class=${isLost ? "old" : ""}><${Banners} />${children}</main>
    <nav class="tabbar" aria-label="Main, at the lower edge">
      ${ENTRIES.slice(0, 3).map(
        ([name, icon, word]) =>
          html`<${Entry} name=${name} icon=${icon} word=${name === "dead" ? "Dead" : word} current=${current}
            isSmall=${true} />`,
      )}
      <button data-key="find-tab" onClick=${() => setIsFinding(true)}><${Icon} name="find" />Find</button>
      <button onClick=${() => setIsMore(true)}><${Icon} name="more" />More</button>
    </nav>
    ${
      isFinding &&
      html`<${Dialog} title="Find a topic" onClose=${() => setIsFinding(false)}><${FindTopic} isFirst=${true}
          onChoose=${() => setIsFinding(false)} />
      <div class="acts"><button class="btn" onClick=${() => setIsFinding(false)}>Close</button></div><//>`
    }
    ${isMore && html`<${MoreViews} signOut=${signOut} onClose=${() => setIsMore(false)} />`}
    ${isListed && html`<${KeyList} />`}
    <${DialogPlace} /><${Toasts} />
    <p class="vh" role="status" aria-live="polite">${message}</p>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

function Entry({ name, icon, word, current, number, isSmall }) {
  const counts = useStore(totals);
  const shown = number?.(counts);
  const isBad = name === "dead" && counts.deadGrows;
  return html`<a class="nv" href=${viewUrl(name)} aria-current=${name === current ? "page" : undefined}>
    <${Icon} name=${icon} />${word}
    ${
      isSmall
        ? isBad && html`<span class="dot"><span class="vh">: growing</span></span>`
        : format.isKnown(shown) && html`<span class=${isBad ? "n bad" : "n"}>${format.count(shown)}</span>`
    }</a>`;
}

function Sidebar({ current, signOut }) {
  const known = useStore(session);
  return html`<header class="side"><a class="brand" href=${viewUrl("overview")}>
    <svg viewBox="0 0 24 24" aria-hidden="true"><use href="#i-brand" /></svg><span><b>miniqueue</b><small><${Name}>
      ${known.name}<//></small></span></a>
    <${FindTopic} />
    <nav class="nav" aria-label="Main">
      ${ENTRIES.map(
        ([name, icon, word, number]) =>
          html`<${Entry} name=${name} icon=${icon} word=${word} number=${number} current=${current} />`,
      )}</nav>
    <div class="foot"><${Person} signOut=${signOut} /><${Footer} /></div></header>`;
}

function Person({ signOut }) {
  const known = useStore(session);
  if (!known.user) return html`<div><b>No users</b></div><p>Every client may do everything.</p>`;
  return html`<div class="person"><b><${Name}>${known.user}<//></b>
    <button class="link" onClick=${signOut}>Sign out</button></div>
      <p class="wrap">${rolesText(known) || "no role"}</p>`;
}

const THEMES = { auto: "light", light: "dark", dark: "auto" };
const THEME_WORDS = { auto: "as the system", light: "light", dark: "dark" };

function Footer() {
  const { theme, zone } = useStore(preferences);
  const switchTheme = () => {
    preferences.set({ theme: THEMES[theme] });
    announcement.set(`Theme: ${THEME_WORDS[THEMES[theme]]}.`);
  };
  const switchZone = () => preferences.set({ zone: zone === "utc" ? "local" : "utc" });
  return html`<div class="foot-links">
    <button class="link" title=${`Theme: ${THEME_WORDS[theme]}`}
        onClick=${switchTheme}>Theme<span class="vh">: ${THEME_WORDS[theme]}</span></button>
    <button class="link" title="Times in UTC or in the zone of this computer" onClick=${switchZone}>
      ${zone === "utc" ? "UTC" : "Local time"}</button>
    <button class="link keys-link" onClick=${() => isListShown.set(true)}>Keys <kbd>?</kbd></button></div>`;
}

function MoreViews({ signOut, onClose }) {
  return html`<${Dialog} title="More" onClose=${onClose}><nav class="nav" aria-label="More" onClick=${onClose}>
    ${ENTRIES.slice(3).map(
      ([name, icon, word, number]) => html`<${Entry} name=${name} icon=${icon} word=${word} number=${number} />`,
    )}</nav>
    <div class="foot"><${Person} signOut=${signOut} /><${Footer} /></div>
    <div class="acts"><button class="btn" data-first onClick=${onClose}>Close</button></div><//>`;
}

function KeyList() {
  const { keys } = useStore(preferences);
  const close = () => isListShown.set(false);
  return html`<${Dialog} title="Keys" onClose=${close}><dl class="facts keys">
    ${KEYS.map(
      ([key, meaning]) => html`<dt>${key.split(" ").map((part) => html`<kbd>${part}</kbd> `)}</dt><dd>${meaning}</dd>`,
    )}</dl>
    <label class="check">
      <input type="checkbox" checked=${keys} onChange=${() => preferences.set({ keys: !keys })} />
      Keys are on. None of them acts on messages.</label>
    <div class="acts"><button class="btn" data-first onClick=${close}>Close</button></div><//>`;
}

/** The title of a view: path, heading, state, Live, range, what is beside them, actions. */
export function TitleBar({
  title,
  here,
  path = [],
  pill,
  actions,
  ranges,
  documentTitle,
  isLiveShown = true,
  aside,
  children,
}) {
  const known = useStore(session);
  const heading = useRef(null);
  const shownTitle = documentTitle ?? title;
  const { view, topic, tab, id } = useStore(route);
  useEffect(() => {
    document.title = `${shownTitle} · ${known.name} · miniqueue`;
  }, [shownTitle, known.name]);
  useLayoutEffect(() => {
    if (TitleBar.shown !== undefined && TitleBar.shown !== `${view} ${topic} ${id}`)
      heading.current.focus({ preventScroll: true });
    TitleBar.shown = `${view} ${topic} ${id}`;
  }, [view, topic, id]);
  const crumbs =
    path.length > 0 &&
    html`<nav class="crumbs" aria-label="Path">
      ${path.map(([word, href]) => html`<a href=${href}><${Name}>${word}<//></a><span aria-hidden="true">/</span>`)}
        <${Name}>${here ?? title}<//></nav>`;
  const right =
    (isLiveShown || ranges || aside) &&
    html`<div class="right">${aside}${isLiveShown && html`<${LiveSwitch} />`}${ranges && html`<${Ranges} />`}</div>`;
  return html`<div class="top">${crumbs && html`<div>${crumbs}${right}</div>`}
    <div><h1 ref=${heading} tabindex="-1"><${Name}>${title}<//></h1>${pill}
      ${actions && html`<div class="right acts1">${actions}</div>`}${!crumbs && right}</div>
    <${Skew} />${children}</div>`;
}

/** The difference of the clocks, if it is large enough to confuse. */
function Skew() {
  const offset = useStore(clockOffset);
  if (Math.abs(offset) < 2000) return null;
  const difference = `${format.age(Math.abs(offset) / 1000)} ${offset > 0 ? "behind" : "ahead of"}`;
  return html`<p class="s3 n">The clock of this browser is ${difference} that of the broker. Times and ages here are by
    the clock of the broker.</p>`;
}

function LiveSwitch() {
  const isOn = useStore(isLive);
  const { zone } = useStore(preferences);
  const { isLost } = useStore(connection);
  useSeconds(isOn && !isLost);
  const [frozenMs, setFrozenMs] = useState(null);
  const toggle = () => {
    setFrozenMs(isOn ? brokerNow() : null);
    isLive.set(!isOn);
  };
  const shownMs = isOn ? brokerNow() : (frozenMs ?? brokerNow());
  const title = isOn ? "The figures are live. Press to freeze them." : "The figures are frozen. Press to continue.";
  return html`<button class=${isOn && !isLost ? "btn live" : "btn live off"} aria-pressed=${String(isOn)}
      title=${title} onClick=${toggle}>Live <span class="clock n">
        ${format.clock(shownMs, zone)} ${zone === "utc" ? "UTC" : zoneName()}</span></button>`;
}

function zoneName() {
  const part = new Intl.DateTimeFormat("en", { timeZoneName: "short" })
    .formatToParts(new Date())
    .find(({ type }) => type === "timeZoneName");
  return part?.value ?? "local";
}

const RANGES = { "15m": "15 minutes", "1h": "1 hour", "24h": "24 hours" };

function Ranges() {
  const { query } = useStore(route);
  const choose = (event) => setQuery({ range: event.target.value === "15m" ? null : event.target.value });
  return html`<select aria-label="Time range" value=${query.range ?? "15m"} onChange=${choose}>
    ${Object.entries(RANGES).map(
      ([value, word]) => html`<option value=${value} selected=${value === (query.range ?? "15m")}>${word}</option>`,
    )}</select>`;
}

/** A lost connection, a broker that restarted or has another version, publishes that are rejected. */
function Banners() {
  const { isLost, sinceMs, lastMs, nextTryMs } = useStore(connection);
  const counts = useStore(totals);
  const known = useStore(session);
  const { zone } = useStore(preferences);
  const [isShown, setIsShown] = useState(false);
  const started = useRef(null);
  const { current: ownVersion } = useRef(known.version); // later answers are from a broker that was replaced
  useSeconds(isLost);
  useEffect(() => {
    if (!isLost) {
      setIsShown(false);
      return undefined;
    }
    const timer = setTimeout(() => setIsShown(true), Math.max(0, 3000 - (brokerNow() - sinceMs)));
    return () => clearTimeout(timer);
  }, [isLost]);
  useEffect(() => {
    if (started.current && counts.startedAtMs && counts.startedAtMs !== started.current)
      say(`The broker was restarted at ${format.clock(counts.startedAtMs, zone)}. The page is connected again.`);
    started.current = counts.startedAtMs ?? started.current;
  }, [counts.startedAtMs]);
  const isOther = counts.version && counts.version !== ownVersion;
  const oldSeconds = lastMs === null ? null : (Date.now() - lastMs) / 1000;
  const nextSeconds = Math.max(0, Math.ceil(((nextTryMs ?? Date.now()) - Date.now()) / 1000));
  return html`<div class="banners">
    ${
      isLost &&
      isShown &&
      html`<div class="note crit" role="alert"><${Icon} name="crit" />
      <b>No connection to the broker since ${format.clock(sinceMs, zone)}.</b> <span aria-live="off" class="n">
        ${
          oldSeconds !== null && `Figures are ${format.age(Math.round(oldSeconds))} old. `
        }Next try in ${nextSeconds} s.</span>
            <button class="btn right" onClick=${tryNow}>Try now</button></div>`
    }
    ${
      counts.refused &&
      html`<div class="note crit" role="status"><${Icon} name="crit" />
      <b>Publishes are rejected: ${counts.refused}.</b>
      <span>Consumers continue; <a href=${viewUrl("broker")}>the broker</a> states the reason.</span></div>`
    }
    ${
      isOther &&
      html`<div class="note warn" role="status"><${Icon} name="warn" />
      <b>The broker now has version ${counts.version}.</b> <span>This page is of version ${ownVersion}.</span>
        <button class="btn right" onClick=${() => location.reload()}>Reload</button></div>`
    }
  </div>`;
}
