// Values of topic settings: as text in an input, and as JSON for the API.

import { isKnown } from "./format.js";

/** Return the text of a setting's value, as a person types it. */
export function settingText(value) {
  if (!isKnown(value)) return "";
  if (Array.isArray(value))
    return value.every((item) => typeof item !== "object") ? value.join(", ") : JSON.stringify(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** Return the JSON value of a text, by the kind of the setting; "" is null, the default. Throws Error with a text. */
export function settingValue(kind, text) {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  if (kind === "flag") return trimmed === "true";
  if (kind === "number") return /^-?[0-9]+(\.[0-9]+)?$/.test(trimmed) ? Number(trimmed) : trimmed;
  if (kind === "list")
    return trimmed
      .split(",")
      .map((part) => settingValue("number", part))
      .filter((part) => part !== null);
  if (kind === "json") {
    try {
      return JSON.parse(trimmed);
    } catch {
      throw new Error("invalid value: not JSON; must be a JSON object");
    }
  }
  return trimmed;
}
