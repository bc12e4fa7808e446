// The list as far as it is known: rows at their positions in the server's order, holes where nobody looked yet. Pure.
import type { ThreadRow, ThreadRows } from "../api/types";

export type Slots = readonly (ThreadRow | undefined)[];

/**
 * Puts a page in at its position. What moved there from elsewhere leaves a hole where it was, so that no thread is in the
 * list twice. A page that is shorter than `limit` ends the list, whatever was counted.
 */
export function put(slots: Slots, page: ThreadRows, offset: number, limit: number): Slots {
  const end = offset + page.threads.length;
  const total = page.threads.length < limit ? Math.min(end, Math.max(page.total, 0)) : page.total;
  const next = Array.from(
    { length: Math.max(total, page.threads.length > 0 ? end : 0) },
    (_, at) => slots[at],
  );
  const fresh = new Set(page.threads.map((row) => row.thread_id));
  for (const [at, row] of next.entries()) if (row && fresh.has(row.thread_id)) next[at] = undefined;
  for (const [at, row] of page.threads.entries()) next[offset + at] = row;
  return next;
}

/** Returns the positions of what is not shown, from the first. */
export function gaps(slots: Slots, hidden: ReadonlySet<string>): number[] {
  if (hidden.size === 0) return [];
  return slots.flatMap((row, at) => (row && hidden.has(row.thread_id) ? [at] : []));
}

/** Returns the position in the list of what is shown at `index`. */
export function slotOf(index: number, gaps: readonly number[]): number {
  let slot = index;
  for (const gap of gaps) if (gap <= slot) slot += 1;
  return slot;
}

/** Returns where a thread is shown, or -1. */
export function indexOf(slots: Slots, id: string, gaps: readonly number[]): number {
  const slot = slots.findIndex((row) => row?.thread_id === id);
  return slot < 0 || gaps.includes(slot) ? -1 : slot - gaps.filter((gap) => gap < slot).length;
}

/** Returns the first hole from `from` up to and without `to`, or -1. */
export function hole(slots: Slots, from: number, to: number): number {
  for (let at = Math.max(from, 0); at < Math.min(to, slots.length); at += 1) if (!slots[at]) return at;
  return -1;
}
