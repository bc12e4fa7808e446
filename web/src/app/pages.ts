// The pages, each loaded lazily as a chunk of its own, so that the first view only loads its own page.
import { lazyComponents } from "../thread/lazyComponents";

export const pages = {
  thread: () => import("../thread/ThreadPage.svelte"),
  handoffs: () => import("../handoff/HandoffList.svelte"),
  handoff: () => import("../handoff/HandoffPage.svelte"),
  lineage: () => import("../lineage/LineagePage.svelte"),
  trace: () => import("../trace/TracePage.svelte"),
  search: () => import("../search/SearchPage.svelte"),
  memory: () => import("../memory/MemoryPage.svelte"),
};

/** Prefetches all pages when the browser is idle, so that navigation does not wait for the network. */
export function prefetchPages(): void {
  const loadAll = () => {
    for (const load of [...Object.values(pages), ...Object.values(lazyComponents)])
      void load().catch(() => undefined);
  };
  if ("requestIdleCallback" in window) requestIdleCallback(loadAll);
  else setTimeout(loadAll, 1_000);
}
