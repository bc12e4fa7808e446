// The partially loaded thread list: rows at their positions in the server's order, and holes that are not
// loaded yet. Pure.
import type { ThreadRow, ThreadRows } from "../api/types";

export type Slots = readonly (ThreadRow | undefined)[];

/**
 * Inserts a page at its position. A row that moved there leaves a hole at its old position, so that no thread
 * is listed twice. A page shorter than `limit` ends the list, whatever its total says. A total at which the server
 * stopped counting does not shorten the list.
 */
export function insertPage(slots: Slots, page: ThreadRows, offset: number, limit: number): Slots {
  const end = offset + page.threads.length;
  const counted = page.is_total_exact ? page.total : Math.max(page.total, slots.length);
  const total = page.threads.length < limit ? Math.min(end, Math.max(page.total, 0)) : counted;
  const next = Array.from(
    { length: Math.max(total, page.threads.length > 0 ? end : 0) },
    (_, at) => slots[at],
  );
  const fresh = new Set(page.threads.map((row) => row.thread_id));
  for (const [at, row] of next.entries()) if (row && fresh.has(row.thread_id)) next[at] = undefined;
  for (const [at, row] of page.threads.entries()) next[offset + at] = row;
  return next;
}

/** Returns the positions of hidden rows in ascending order. */
export function hiddenPositions(slots: Slots, hidden: ReadonlySet<string>): number[] {
  if (hidden.size === 0) return [];
  return slots.flatMap((row, at) => (row && hidden.has(row.thread_id) ? [at] : []));
}

/** Returns the slot of the visible row at `index`. */
export function slotOf(index: number, gaps: readonly number[]): number {
  let slot = index;
  for (const gap of gaps) if (gap <= slot) slot += 1;
  return slot;
}

/** Returns the visible index of a thread, or -1. */
export function visibleIndexOf(slots: Slots, id: string, gaps: readonly number[]): number {
  const slot = slots.findIndex((row) => row?.thread_id === id);
  return slot < 0 || gaps.includes(slot) ? -1 : slot - gaps.filter((gap) => gap < slot).length;
}

/** Returns the first hole in the range, without `to`, or -1. */
export function firstHole(slots: Slots, from: number, to: number): number {
  for (let at = Math.max(from, 0); at < Math.min(to, slots.length); at += 1) if (!slots[at]) return at;
  return -1;
}
