// A cache of thread titles. Each is loaded once while the page is open.
import { SvelteMap } from "svelte/reactivity";
import { api } from "../api/endpoints";
import { shortId, titleOf } from "../ui/format";

/**
 * The maximum number of concurrent requests. Browsers allow six per server, and a search must not wait for
 * titles.
 */
const REQUESTS_MAX = 3;

const titles = new SvelteMap<string, string>();
const requested = new Set<string>();
const queue: string[] = [];
let active = 0;

/** Returns the title if it is loaded. */
export function cachedTitle(thread: string): string | undefined {
  return titles.get(thread);
}

/** Loads the titles that have not been requested yet. */
export function requestTitles(threads: Iterable<string>): void {
  for (const thread of threads) {
    if (requested.has(thread)) continue;
    requested.add(thread);
    queue.push(thread);
  }
  while (active < REQUESTS_MAX && queue.length > 0) void loadTitle(queue.shift() ?? "");
}

async function loadTitle(thread: string): Promise<void> {
  active += 1;
  try {
    titles.set(thread, titleOf(await api.thread(thread)));
  } catch {
    // Falls back to the id, and tries again on the next visit.
    requested.delete(thread);
    titles.set(thread, `Thread ${shortId(thread, [])}`);
  } finally {
    active -= 1;
    requestTitles([]);
  }
}
