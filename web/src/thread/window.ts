// A window over the journal: a stretch of entries without a hole, and whether there are more at its ends. Pure: pages in,
// windows out. An answer that comes late, or for another place, changes nothing.
import type { Entry, HistoryPage } from "../api/types";
import { merge, unrated } from "./items";

export interface Window {
  entries: readonly Entry[];
  hasBefore: boolean;
  hasAfter: boolean;
}

export const EMPTY: Window = { entries: [], hasBefore: false, hasAfter: false };

/** The position before the window: asking for what is before it means asking with this. */
export function firstSeq(window: Window): number {
  return window.entries[0]?.seq ?? 0;
}

/** The position of the newest entry, 0 when there is none. */
export function lastSeq(window: Window): number {
  return window.entries.at(-1)?.seq ?? 0;
}

/** Opens the window at its newest page. */
export function opened(page: HistoryPage): Window {
  return {
    entries: tidied(merge([], page.entries)),
    hasBefore: page.has_more_before,
    hasAfter: page.has_more_after,
  };
}

/** Opens the window around a place: `before` ends where `after` begins. */
export function around(before: HistoryPage, after: HistoryPage): Window {
  return {
    entries: tidied(merge(before.entries, after.entries)),
    hasBefore: before.has_more_before,
    hasAfter: after.has_more_after,
  };
}

/** Puts a page in that was asked for with `before_seq: asked`. */
export function older(window: Window, asked: number, page: HistoryPage): Window {
  if (window.entries.length === 0 || firstSeq(window) !== asked) return window;
  const fits = page.entries.filter((entry) => entry.seq < asked);
  return {
    entries: tidied(merge(window.entries, fits)),
    hasBefore: page.has_more_before,
    hasAfter: window.hasAfter,
  };
}

/** Puts a page in that was asked for with `after_seq: asked`. */
export function newer(window: Window, asked: number, page: HistoryPage): Window {
  const end = lastSeq(window);
  // The page has everything from behind `asked` on, so it joins on to a window that ends there or later.
  if (asked > end || (window.entries.length > 0 && asked < firstSeq(window))) return window;
  const until = page.entries.at(-1)?.seq ?? asked;
  const fits = page.entries.filter((entry) => entry.seq > asked);
  return {
    entries: fits.length === 0 ? window.entries : tidied(merge(window.entries, fits)),
    hasBefore: window.hasBefore,
    hasAfter: until >= end ? page.has_more_after : window.hasAfter,
  };
}

/** Puts in the place of the window what `after_seq: asked` gave now: what was taken back meanwhile is gone. */
export function reread(window: Window, asked: number, page: HistoryPage): Window {
  if (asked >= Math.max(firstSeq(window), 1)) return window;
  return {
    entries: tidied(merge([], page.entries)),
    hasBefore: window.hasBefore,
    hasAfter: page.has_more_after,
  };
}

/** Leaves away the oldest entries but the newest `max`. */
export function withoutOldest(window: Window, max: number): Window {
  const { entries } = window;
  if (entries.length <= max) return window;
  return { ...window, entries: entries.slice(entries.length - max), hasBefore: true };
}

/** Leaves away the newest entries but the oldest `max`. */
export function withoutNewest(window: Window, max: number): Window {
  const { entries } = window;
  if (entries.length <= max) return window;
  return { ...window, entries: entries.slice(0, max), hasAfter: true };
}

/** The last answer of a run is the one that is rated: one that was the last when it was read no longer is when another follows. */
function tidied(entries: readonly Entry[]): readonly Entry[] {
  const last = new Map<string, string>();
  for (const entry of entries) if (entry.type === "ai" && entry.run_id) last.set(entry.run_id, entry.id);
  return entries.map((entry) => {
    const isEarlier =
      entry.type === "ai" && "feedback" in entry && entry.run_id && last.get(entry.run_id) !== entry.id;
    return isEarlier ? unrated(entry) : entry;
  });
}
