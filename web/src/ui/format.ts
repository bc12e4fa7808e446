// How numbers, moments and names are written on the screen. Pure.
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
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** `3 min. ago`, from now. */
export function ago(at: string, now = Date.now()): string {
  const seconds = (Date.parse(at) - now) / 1000;
  const unit = UNITS.find(([, size]) => Math.abs(seconds) >= size);
  return unit ? relative.format(Math.round(seconds / unit[1]), unit[0]) : "now";
}

/** The moment in full, in the reader's own way. */
export function exact(at: string): string {
  return absolute.format(new Date(at));
}

/** `150k`: a number whose last digits matter to nobody. */
export function rough(count: number): string {
  return compact.format(count).toLowerCase();
}

/** `12 messages`, `1 message`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

/** `80 ms`, `2.3 s`, `1 min 5 s`, `2 h 5 min`. */
export function duration(ms: number): string {
  if (Math.round(ms) < 1_000) return `${Math.round(ms)} ms`;
  const tenths = Math.round(ms / 100);
  if (tenths < 600) return `${(tenths / 10).toFixed(1)} s`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `$0.0123`; nothing for what has no price. */
export function dollars(amount: number | null): string {
  return amount === null ? "" : `$${amount < 0.01 ? amount.toFixed(4) : amount.toFixed(2)}`;
}

/** What a thread is called on the screen. */
export function titleOf(
  thread: Pick<ThreadRow, "name" | "first_prompt"> & { title?: string | null },
): string {
  return thread.name || thread.title || thread.first_prompt || "New thread";
}
