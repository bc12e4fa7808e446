// The places of the page: each is a file of its own, fetched when one goes there, or before that, once the page is at rest. So the
// first look waits for no place but the one it is at.
import { later } from "../thread/later";

export const places = {
  thread: () => import("../thread/ThreadPage.svelte"),
  handoffs: () => import("../handoff/HandoffList.svelte"),
  handoff: () => import("../handoff/HandoffPage.svelte"),
  lineage: () => import("../lineage/LineagePage.svelte"),
  trace: () => import("../trace/TracePage.svelte"),
  search: () => import("../search/SearchPage.svelte"),
  memory: () => import("../memory/MemoryPage.svelte"),
};

/** Fetches the places when the browser has nothing else to do, so that going there waits for nothing. */
export function fetchAhead(): void {
  const fetchAll = () => {
    for (const fetchPlace of [...Object.values(places), ...Object.values(later)])
      void fetchPlace().catch(() => undefined);
  };
  if ("requestIdleCallback" in window) requestIdleCallback(fetchAll);
  else setTimeout(fetchAll, 1_000);
}
