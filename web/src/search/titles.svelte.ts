// The titles of threads, each asked for once and kept while the page is open.
import { SvelteMap } from "svelte/reactivity";
import { api } from "../api/endpoints";
import { titleOf } from "../ui/format";

/** Requests at a time: a browser allows six to a server, and a search must not wait for titles. */
const AT_ONCE = 3;

const known = new SvelteMap<string, string>();
const asked = new Set<string>();
const waiting: string[] = [];
let busy = 0;

/** The title, as soon as it is known. */
export function titleFor(thread: string): string | undefined {
  return known.get(thread);
}

/** Asks for the titles that nobody asked for yet. */
export function askTitles(threads: Iterable<string>): void {
  for (const thread of threads) {
    if (asked.has(thread)) continue;
    asked.add(thread);
    waiting.push(thread);
  }
  while (busy < AT_ONCE && waiting.length > 0) void next(waiting.shift() ?? "");
}

async function next(thread: string): Promise<void> {
  busy += 1;
  try {
    known.set(thread, titleOf(await api.thread(thread)));
  } catch {
    // It is known by its id then, and asked for again on another visit.
    asked.delete(thread);
    known.set(thread, `Thread ${thread.slice(0, 8)}`);
  } finally {
    busy -= 1;
    askTitles([]);
  }
}
