// Connections as the broker lists them: read again every 5 s while the page is live.

import { useRead } from "../lib/models.js";
import { queryString } from "../lib/routes.js";
import { isLive } from "../lib/store.js";
import { useStore } from "../lib/ui.js";

const READ_MS = 5000;

/** Return the answer of the broker about its connections. */
export function useConnections(query) {
  const isOn = useStore(isLive);
  return useRead(`connections${queryString(query)}`, isOn ? READ_MS : null);
}
