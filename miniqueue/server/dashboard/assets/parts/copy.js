// A button that copies a text, and commands of the shell that can be copied.

import { html, useState } from "../lib/ui.js";
import { announcement } from "../lib/store.js";
import { Icon } from "./marks.js";

/** Copies `text`, a string or a function that returns it. */
export function CopyButton({ label, text, isBare = false, isKey = false }) {
  const [isCopied, setIsCopied] = useState(false);
  const copy = async () => {
    const content = typeof text === "function" ? text() : text;
    await write(content);
    setIsCopied(true);
    announcement.set("Copied.");
    setTimeout(() => setIsCopied(false), 1500);
  };
  return html`<button class=${isBare ? "btn bare" : "btn"} aria-label=${label} title=${label}
      data-key=${isKey ? "copy" : undefined} onClick=${copy}><${Icon} name=${isCopied ? "check" : "copy"} /></button>`;
}

async function write(content) {
  if (navigator.clipboard) return navigator.clipboard.writeText(content);
  // Plain HTTP off loopback has no clipboard.
  const area = document.createElement("textarea");
  area.value = content;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Commands that do the same as the page. */
export function Commands({ lines }) {
  const text = lines.join("\n");
  return html`<section class="card" aria-labelledby="h-commands"><header><h2 id="h-commands">On the command line</h2>
    <div class="right tools"><${CopyButton} label="Copy the commands" text=${text} isBare=${true} /></div></header>
    <pre tabindex="0" role="group" aria-label="Commands">${text}</pre></section>`;
}
