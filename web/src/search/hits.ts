// View logic of search hits: grouping, addresses and labels. Pure.
import type { IndexBacklog, MeaningComparison, SearchHit } from "../api/types";
import { paths } from "../app/router.svelte";
import { formatCount } from "../ui/format";

/** A heading and its hits, best first. */
export interface HitGroup {
  key: string;
  /** The thread of the hits, or null. */
  thread: string | null;
  /** The heading for hits without a thread. */
  name: string;
  hits: SearchHit[];
}

const SPEAKERS: Record<string, string> = { human: "You", ai: "Agent", harness: "Harness", tool: "Tool" };

/** Returns the display name of a speaker. */
export function speakerName(message: { speaker: string; tool?: string }): string {
  return message.tool ?? SPEAKERS[message.speaker] ?? message.speaker;
}

/** Returns a unique key of a hit. */
export function hitKey(hit: SearchHit): string {
  switch (hit.kind) {
    case "message":
      return `message ${hit.thread_id} ${hit.seq}`;
    case "summary":
      return `summary ${hit.summary_id}`;
    case "handoff":
      return `handoff ${hit.handoff_id}`;
    case "item":
      return `item ${hit.namespace.join("/")} ${hit.key}`;
  }
}

/** Returns the address of a hit, or null for store items, which have no page. */
export function hitAddress(hit: SearchHit): string | null {
  switch (hit.kind) {
    case "message":
      return paths.thread(hit.thread_id, hit.seq);
    case "summary":
      return paths.memory(hit.summary_id);
    case "handoff":
      return paths.handoff(hit.handoff_id);
    case "item":
      return null;
  }
}

function threadOf(hit: SearchHit): string | null {
  if (hit.kind === "handoff") return hit.parent_thread_id;
  return hit.kind === "item" ? null : hit.thread_id;
}

/** Groups hits by thread. A group is ranked by its best hit. */
export function groupHits(hits: readonly SearchHit[]): HitGroup[] {
  const groups = new Map<string, HitGroup>();
  for (const hit of hits) {
    const thread = threadOf(hit);
    const name = hit.kind === "item" ? "The store" : "Deleted thread";
    const key = thread ?? name;
    const group = groups.get(key) ?? { key, thread, name, hits: [] };
    group.hits.push(hit);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Returns the note about messages that were not searched; empty if all were. */
export function backlogNote({ messages, threads }: IndexBacklog): string {
  if (messages === 0) return "";
  const verbs = messages === 1 ? "is not indexed yet and was" : "are not indexed yet and were";
  return `${formatCount(messages, "message")} of ${formatCount(threads, "thread")} ${verbs} not searched. The hits are updated as they are indexed.`;
}

/**
 * Returns the note about messages whose meaning was not compared; empty if there is nothing to say. Their number is an upper
 * bound.
 */
export function meaningNote(meaning: MeaningComparison): string {
  if (meaning.state === "unavailable") return `Only words were compared: ${meaning.reason}.`;
  if (meaning.state === "off" || meaning.missing === 0) return "";
  const [verb, whose] = meaning.missing === 1 ? ["has", "its"] : ["have", "their"];
  return `Up to ${formatCount(meaning.missing, "message")} ${verb} no embedding yet: only ${whose} words were compared.`;
}

/** The time ranges of the filter. */
export const TIME_RANGES = {
  ever: { label: "Any time", days: null },
  day: { label: "Past day", days: 1 },
  week: { label: "Past week", days: 7 },
  month: { label: "Past month", days: 30 },
  year: { label: "Past year", days: 365 },
} as const;
export type TimeRange = keyof typeof TIME_RANGES;

const DAY_MS = 86_400_000;

/** Returns the start of a time range, rounded to the minute so that repeated queries are equal. */
export function rangeStart(since: TimeRange, now: number): string | undefined {
  const { days } = TIME_RANGES[since];
  if (days === null) return undefined;
  return new Date(Math.floor((now - days * DAY_MS) / 60_000) * 60_000).toISOString();
}
