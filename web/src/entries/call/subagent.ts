// Loads the history of a sub-agent's thread, which is found by its call.
import { api } from "../../api/endpoints";
import type { HistoryEntry } from "../../api/types";

/** The number of entries per request. */
const PAGE_ENTRIES = 50;

/** Returns the thread of a call's sub-agent, or null if it does not exist yet. */
export async function findSubagentThread(parent: string, call: string): Promise<string | null> {
  const { subagents } = await api.subagents(parent);
  return subagents.find(({ call_id }) => call_id === call)?.thread_id ?? null;
}

/** Returns the newest entries, or those before a position. */
export async function newestEntries(
  thread: string,
  before?: number,
): Promise<{ entries: HistoryEntry[]; hasMore: boolean }> {
  const page = await api.history(thread, { limit: PAGE_ENTRIES, before_seq: before });
  return { entries: page.entries, hasMore: page.has_more_before };
}

/** Returns all entries after a position. */
export async function entriesAfter(thread: string, after: number): Promise<HistoryEntry[]> {
  const entries: HistoryEntry[] = [];
  let last = after;
  for (;;) {
    const page = await api.history(thread, { limit: PAGE_ENTRIES, after_seq: last });
    entries.push(...page.entries);
    const lastSeq = page.entries.at(-1)?.seq ?? last;
    if (!page.has_more_after || lastSeq <= last) return entries;
    last = lastSeq;
  }
}
