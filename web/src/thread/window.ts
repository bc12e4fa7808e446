// A window over the journal: a gapless range of entries, and whether there are more at its ends. Pure. Late
// responses, and responses for another position, have no effect.
import type { HistoryEntry, HistoryPage } from "../api/types";
import { mergeEntries, withoutFeedback } from "./items";

export interface EntryWindow {
  entries: readonly HistoryEntry[];
  hasBefore: boolean;
  hasAfter: boolean;
}

export const EMPTY: EntryWindow = { entries: [], hasBefore: false, hasAfter: false };

/** Returns the position of the oldest entry, as the `before_seq` of the page before it. */
export function firstSeq(window: EntryWindow): number {
  return window.entries[0]?.seq ?? 0;
}

/** Returns the position of the newest entry, or 0. */
export function lastSeq(window: EntryWindow): number {
  return window.entries.at(-1)?.seq ?? 0;
}

/** Opens the window at the newest page. */
export function openWindow(page: HistoryPage): EntryWindow {
  return {
    entries: keepLastFeedback(mergeEntries([], page.entries)),
    hasBefore: page.has_more_before,
    hasAfter: page.has_more_after,
  };
}

/** Opens the window around a position: `before` ends where `after` starts. */
export function windowAround(before: HistoryPage, after: HistoryPage): EntryWindow {
  return {
    entries: keepLastFeedback(mergeEntries(before.entries, after.entries)),
    hasBefore: before.has_more_before,
    hasAfter: after.has_more_after,
  };
}

/** Adds a page that was requested with `before_seq: cursor`. */
export function prependPage(window: EntryWindow, cursor: number, page: HistoryPage): EntryWindow {
  if (window.entries.length === 0 || firstSeq(window) !== cursor) return window;
  const newEntries = page.entries.filter((entry) => entry.seq < cursor);
  return {
    entries: keepLastFeedback(mergeEntries(window.entries, newEntries)),
    hasBefore: page.has_more_before,
    hasAfter: window.hasAfter,
  };
}

/** Adds a page that was requested with `after_seq: cursor`. */
export function appendPage(window: EntryWindow, cursor: number, page: HistoryPage): EntryWindow {
  const end = lastSeq(window);
  // The page starts right after `cursor`, so it joins a window that ends there or later.
  if (cursor > end || (window.entries.length > 0 && cursor < firstSeq(window))) return window;
  const until = page.entries.at(-1)?.seq ?? cursor;
  const newEntries = page.entries.filter((entry) => entry.seq > cursor);
  return {
    entries:
      newEntries.length === 0 ? window.entries : keepLastFeedback(mergeEntries(window.entries, newEntries)),
    hasBefore: window.hasBefore,
    hasAfter: until >= end ? page.has_more_after : window.hasAfter,
  };
}

/** Replaces the entries by the current page after `cursor`, without those that were removed meanwhile. */
export function replaceEntries(window: EntryWindow, cursor: number, page: HistoryPage): EntryWindow {
  if (cursor >= Math.max(firstSeq(window), 1)) return window;
  return {
    entries: keepLastFeedback(mergeEntries([], page.entries)),
    hasBefore: window.hasBefore,
    hasAfter: page.has_more_after,
  };
}

/** Drops the oldest entries beyond `max`. */
export function dropOldest(window: EntryWindow, max: number): EntryWindow {
  const { entries } = window;
  if (entries.length <= max) return window;
  return { ...window, entries: entries.slice(entries.length - max), hasBefore: true };
}

/** Drops the newest entries beyond `max`. */
export function dropNewest(window: EntryWindow, max: number): EntryWindow {
  const { entries } = window;
  if (entries.length <= max) return window;
  return { ...window, entries: entries.slice(0, max), hasAfter: true };
}

/**
 * Only the last answer of a run can be rated. An answer that was the last when it was loaded loses its
 * feedback field when another one follows.
 */
function keepLastFeedback(entries: readonly HistoryEntry[]): readonly HistoryEntry[] {
  const last = new Map<string, string>();
  for (const entry of entries) if (entry.type === "ai" && entry.run_id) last.set(entry.run_id, entry.id);
  return entries.map((entry) => {
    const isEarlier =
      entry.type === "ai" && "feedback" in entry && entry.run_id && last.get(entry.run_id) !== entry.id;
    return isEarlier ? withoutFeedback(entry) : entry;
  });
}
