// The payload of a message as folded JSON, text, or hex. Payloads are text nodes, never HTML.

import { bytes as sizeText, exact, plural } from "../lib/format.js";
import { isShort, jsonTree } from "../lib/json_text.js";
import { headOf, hexLines, textOf } from "../lib/payload.js";
import { setQuery } from "../lib/navigation.js";
import { html, useMemo, useState } from "../lib/ui.js";
import { CopyButton } from "./copy.js";
import { Icon } from "./marks.js";

const SHOWN_BYTES = 65_536;
/** Thousands of elements take a browser seconds. */
const SHOWN_ITEMS = 100;

/** The bytes of a message; `as` is json, text, or hex, as the URL says, or null. */
export function Viewer({ payload, as, fileName }) {
  const [isAll, setIsAll] = useState(false);
  const parts = useMemo(() => {
    const text = textOf(payload);
    const tree = text !== null && payload.length <= SHOWN_BYTES ? jsonTree(text) : null;
    return { text, tree: tree?.items ? tree : null };
  }, [payload]);
  const forms = [parts.tree && ["json", "JSON"], parts.text !== null && ["text", "Text"], ["hex", "Hex"]].filter(
    Boolean,
  );
  const shown = forms.some(([form]) => form === as) ? as : forms[0][0];
  const kind = parts.tree ? "JSON" : parts.text !== null ? "text" : "binary";
  const limit = isAll ? Infinity : SHOWN_BYTES;
  const isCut = payload.length > SHOWN_BYTES && !isAll;
  const choose = (form) => () => setQuery({ as: form === forms[0][0] ? null : form });
  const download = () => save(payload, fileName);
  return html`<section class="card" aria-labelledby="h-payload"><header><h2 id="h-payload">Payload</h2>
    <span class="s3 n">${
      payload.length < 1024 ? `${payload.length} bytes`
        : `${sizeText(payload.length)} (${exact(payload.length)} bytes)`
    }, ${kind}</span>
      <div class="right tools"><div class="fmt" role="radiogroup" aria-label="Shown as">${forms.map(
        ([form, word]) =>
          html`<label><input class="vh" type="radio" name="form" checked=${form === shown} onChange=${choose(form)} />
            ${word}</label>`,
      )}</div>
      <${CopyButton} label="Copy the payload" text=${() => parts.text ?? hexText(payload)} isBare=${true} />
      <button class="btn bare" aria-label="Download the payload" onClick=${download}>
        <${Icon} name="down" /></button></div></header>
    ${
      payload.length === 0
        ? html`<p class="pad s2">The payload is empty.</p>`
        : shown === "json"
          ? html`<div class="pre json" tabindex="0" role="group" aria-label="Payload as JSON">
            <${JsonNode} node=${parts.tree} depth=${0} /></div>`
          : shown === "text"
            ? html`<pre class="raw" tabindex="0" dir="auto" role="group" aria-label="Payload as text">
              ${isCut ? headOf(payload, limit) : parts.text}</pre>`
            : html`<pre class="hex" tabindex="0" role="group" aria-label="Payload in hex">
              ${hexLines(payload, limit).map(
                ([at, hex, characters]) => html`${at}  <b>${hex}</b>  <i>${characters}</i>${"\n"}`,
              )}</pre>`
    }
    ${
      isCut &&
      html`<div class="pager"><span>The first 64 KiB of ${sizeText(payload.length)}</span>
      <button class="btn" onClick=${() => setIsAll(true)}>Show all</button></div>`
    }
  </section>`;
}

const hexText = (payload) =>
  hexLines(payload, Infinity)
    .map((line) => line.join("  "))
    .join("\n");

/** Let the browser save bytes as a file. */
export function save(content, fileName, type = "application/octet-stream") {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

const TAGS = { string: "i", number: "u" };

function Scalar({ node }) {
  const tag = TAGS[node.type];
  return tag === "i"
    ? html`<i>${node.text}</i>`
    : tag === "u"
      ? html`<u>${node.text}</u>`
      : html`<span>${node.text}</span>`;
}

/** One value, with its key and the comma after it; containers fold. */
function JsonNode({ node, name = null, isLast = true, depth }) {
  const [isOpen, setIsOpen] = useState(depth < 4);
  const [shown, setShown] = useState(SHOWN_ITEMS);
  const key = name !== null && html`<b>${name}</b>: `;
  const comma = isLast ? "" : ",";
  if (!node.items) return html`<div class="ln">${key}<${Scalar} node=${node} />${comma}</div>`;
  const [opening, closing] = node.type === "object" ? ["{", "}"] : ["[", "]"];
  if (node.items.length === 0) return html`<div class="ln">${key}${opening}${closing}${comma}</div>`;
  if (depth > 0 && isShort(node)) {
    return html`<div class="ln">${key}${opening} <${Inline} items=${node.items} /> ${closing}${comma}</div>`;
  }
  const number = plural(node.items.length, node.type === "object" ? "member" : "element");
  const fold = html`<button class="fold" aria-expanded=${String(isOpen)}
      aria-label=${`${name ?? "the payload"}: ${number}`}
    onClick=${() => setIsOpen(!isOpen)}>${isOpen ? "▾" : "▸"}</button>`;
  if (!isOpen) {
    return html`<div class="ln">${fold}${key}${opening}<span class="s3"> ${number} </span>${closing}${comma}</div>`;
  }
  const last = node.items.length - 1;
  const rest = node.items.length - shown;
  return html`<div class="ln">${fold}${key}${opening}</div>
    <div class="in">${node.items
      .slice(0, shown)
      .map(
        (item, at) =>
          html`<${JsonNode} key=${at} node=${item.node} name=${item.key} isLast=${at === last} depth=${depth + 1} />`,
      )}${rest > 0 && html`<button class="link" onClick=${() => setShown(Infinity)}>${exact(rest)} more</button>`}</div>
    <div class="ln">${closing}${comma}</div>`;
}

const Inline = ({ items }) =>
  items.map(
    ({ key, node }, at) => html`${at ? ", " : ""}${key !== null && html`<b>${key}</b>: `}<${Scalar} node=${node} />`,
  );
