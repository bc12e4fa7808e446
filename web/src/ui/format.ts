// Formatting of numbers, times and titles. Pure.
import type { ThreadRow } from "../api/types";

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["week", 604_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const compactFormat = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** Formats a time relative to now, such as `3m ago`. */
export function relativeTime(at: string, now = Date.now()): string {
  const seconds = (Date.parse(at) - now) / 1000;
  const unit = UNITS.find(([, size]) => Math.abs(seconds) >= size);
  return unit ? relative.format(Math.round(seconds / unit[1]), unit[0]) : "just now";
}

/** Formats a time in the user's locale. */
export function absoluteTime(at: string): string {
  return absolute.format(new Date(at));
}

/** Formats a rounded number, such as `150k`. */
export function compactNumber(count: number): string {
  return compactFormat.format(count).toLowerCase();
}

/** Formats a count with its noun, such as `12 messages` or `1 message`. */
export function formatCount(count: number, singular: string, plural = `${singular}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? singular : plural}`;
}

/** Formats a duration, such as `80 ms`, `2.3 s`, `1 min 5 s` or `2 h 5 min`. */
export function formatDuration(ms: number): string {
  if (Math.round(ms) < 1_000) return `${Math.round(ms)} ms`;
  const tenths = Math.round(ms / 100);
  if (tenths < 600) return `${(tenths / 10).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Formats a price, such as `$0.0123`; empty if it is unknown. */
export function formatDollars(amount: number | null): string {
  return amount === null ? "" : `$${amount < 0.01 ? amount.toFixed(4) : amount.toFixed(2)}`;
}

/** The stored model name of offline summaries. */
const OFFLINE_SUMMARY_MODEL = "extractive";

/** Names the writer of a summary: a model, or the offline summary. */
export function formatWriter(model: string): string {
  return model === OFFLINE_SUMMARY_MODEL ? "offline summary, no model" : model;
}

/** Returns the display title of a thread. */
export function titleOf(
  thread: Pick<ThreadRow, "name" | "first_prompt"> & { title?: string | null },
): string {
  return thread.name || thread.title || thread.first_prompt || "New thread";
}

/**
 * The lengths of a shortened id. The shortest contains the time of its creation in milliseconds, so that an id that
 * is created later has another beginning.
 */
const SHORT_ID_LENGTHS = [13, 18, 23];

/** Returns the shortest beginning of an id that none of the other ids has. */
export function shortId(id: string, ids: readonly string[]): string {
  const isUnique = (length: number) =>
    !ids.some((other) => other !== id && other.startsWith(id.slice(0, length)));
  return id.slice(0, SHORT_ID_LENGTHS.find(isUnique));
}
