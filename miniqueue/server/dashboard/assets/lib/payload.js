// Payloads: from base64 to bytes, and from bytes to text or to a hex dump.

/** Return the bytes of a base64 text. */
export function bytesOf(base64) {
  const binary = atob(base64 ?? "");
  const result = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) result[at] = binary.charCodeAt(at);
  return result;
}

/** Return the text of bytes that are UTF-8 without control characters, else null. */
export function textOf(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    // Control characters other than tab and line ends: such a payload is binary.
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** Return the text of the first bytes of UTF-8, without a last character that is not complete. */
export function headOf(bytes, maxBytes) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(0, maxBytes), { stream: true });
}

/** Return the lines of a hex dump: [["0000", "7b 22 …", "{\"…"], …]. */
export function hexLines(bytes, maxBytes) {
  const lines = [];
  const end = Math.min(bytes.length, maxBytes);
  const digits = Math.max(4, (end - 1).toString(16).length);
  for (let at = 0; at < end; at += 16) {
    const row = bytes.subarray(at, Math.min(at + 16, end));
    const pairs = Array.from(row, (byte) => byte.toString(16).padStart(2, "0"));
    const hex = pairs.slice(0, 8).join(" ") + (pairs.length > 8 ? `  ${pairs.slice(8).join(" ")}` : "");
    const characters = Array.from(row, (byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte)
      : ".")).join("");
    lines.push([at.toString(16).padStart(digits, "0"), hex.padEnd(48), characters]);
  }
  return lines;
}

/** Return the base64 of bytes. */
export function base64Of(bytes) {
  let binary = "";
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}
