// Hits as they stand on the page: where each leads, what it is called, and which stand under one heading. Pure.
import type { Hit } from "../api/types";
import { to } from "../app/router.svelte";

/** A heading and the hits under it, the best first. */
export interface Group {
  key: string;
  /** The thread they belong to; `null` for what belongs to none. */
  thread: string | null;
  /** The heading where no thread's title is. */
  name: string;
  hits: Hit[];
}

const SPEAKERS: Record<string, string> = { human: "You", ai: "Agent", harness: "Harness", tool: "Tool" };

/** Who said it. */
export function speakerOf(by: { speaker: string; tool?: string }): string {
  return by.tool ?? SPEAKERS[by.speaker] ?? by.speaker;
}

/** What tells a hit from every other. */
export function keyOf(hit: Hit): string {
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

/** Where a hit leads; items have no place of their own on the page. */
export function placeOf(hit: Hit): string | null {
  switch (hit.kind) {
    case "message":
      return to.thread(hit.thread_id, hit.seq);
    case "summary":
      return to.memory(hit.summary_id);
    case "handoff":
      return to.handoff(hit.handoff_id);
    case "item":
      return null;
  }
}

function threadOf(hit: Hit): string | null {
  if (hit.kind === "handoff") return hit.parent_thread_id;
  return hit.kind === "item" ? null : hit.thread_id;
}

/** Puts hits under headings; the best hit of a group says where the group stands. */
export function grouped(hits: readonly Hit[]): Group[] {
  const groups = new Map<string, Group>();
  for (const hit of hits) {
    const thread = threadOf(hit);
    const name = hit.kind === "item" ? "The store" : "A thread that was deleted";
    const key = thread ?? name;
    const group = groups.get(key) ?? { key, thread, name, hits: [] };
    group.hits.push(hit);
    groups.set(key, group);
  }
  return [...groups.values()];
}

/** Spans of time one looks back. */
export const SINCE = {
  ever: { label: "Any time", days: null },
  day: { label: "Past day", days: 1 },
  week: { label: "Past week", days: 7 },
  month: { label: "Past month", days: 30 },
  year: { label: "Past year", days: 365 },
} as const;
export type Since = keyof typeof SINCE;

const DAY_MS = 86_400_000;

/** The moment such a span begins at, to the minute, so that asking again asks the same. */
export function momentOf(since: Since, now: number): string | undefined {
  const { days } = SINCE[since];
  if (days === null) return undefined;
  return new Date(Math.floor((now - days * DAY_MS) / 60_000) * 60_000).toISOString();
}
