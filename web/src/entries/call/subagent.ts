// What a sub-agent did: the thread it worked in, found by its call, and the end of what was said there.
import { api } from "../../api/endpoints";
import type { Entry } from "../../api/types";

/** Entries that are read at a time. */
const PAGE = 50;

/** Returns the thread in which the sub-agent of a call works; null when there is none yet. */
export async function threadOf(parent: string, call: string): Promise<string | null> {
  const { subagents } = await api.subagents(parent);
  return subagents.find(({ call_id }) => call_id === call)?.thread_id ?? null;
}

/** Returns the newest entries, or those before a position. */
export async function newest(thread: string, before?: number): Promise<{ entries: Entry[]; more: boolean }> {
  const page = await api.history(thread, { limit: PAGE, before_seq: before });
  return { entries: page.entries, more: page.has_more_before };
}

/** Returns all that came after a position. */
export async function since(thread: string, after: number): Promise<Entry[]> {
  const entries: Entry[] = [];
  let last = after;
  for (;;) {
    const page = await api.history(thread, { limit: PAGE, after_seq: last });
    entries.push(...page.entries);
    const reached = page.entries.at(-1)?.seq ?? last;
    if (!page.has_more_after || reached <= last) return entries;
    last = reached;
  }
}
