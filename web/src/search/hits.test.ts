import { expect, test, vi } from "vitest";
import type { SearchHit } from "../api/types";
import { backlogNote, groupHits, hitKey, meaningNote, rangeStart, hitAddress, speakerName } from "./hits";

vi.mock("../app/router.svelte", () => ({
  paths: {
    thread: (id: string, at: number) => `thread ${id} at ${at}`,
    memory: (id: string) => `memory ${id}`,
    handoff: (id: string) => `handoff ${id}`,
  },
}));

const found = { created_at: "2026-03-01T09:00:00Z", score: 1, snippet: "x" };
const message = (thread_id: string, seq: number): SearchHit => ({
  ...found,
  kind: "message",
  thread_id,
  seq,
  speaker: "ai",
  before: null,
  after: null,
});
const handoff: SearchHit = {
  ...found,
  kind: "handoff",
  handoff_id: "h",
  parent_thread_id: "a",
  child_thread_id: "c",
};
const item: SearchHit = { ...found, kind: "item", namespace: ["users", "ada"], key: "tea" };
const summary = (thread_id: string | null): SearchHit => ({
  ...found,
  kind: "summary",
  summary_id: "s",
  thread_id,
  first_turn: 1,
  last_turn: 4,
});

test("hits are grouped by thread, best first, others by their own name", () => {
  const hits = [
    message("b", 1),
    handoff,
    message("a", 7),
    item,
    message("b", 2),
    summary("a"),
    summary(null),
  ];
  expect(
    groupHits(hits).map(({ thread, name, hits }) => [thread ?? name, hits.map(({ kind }) => kind)]),
  ).toEqual([
    ["b", ["message", "message"]],
    ["a", ["handoff", "message", "summary"]],
    ["The store", ["item"]],
    ["Deleted thread", ["summary"]],
  ]);
});

test("each hit has an address and a unique key", () => {
  const hits = [message("a", 7), summary("a"), handoff, item];
  expect(hits.map(hitAddress)).toEqual(["thread a at 7", "memory s", "handoff h", null]);
  expect(new Set([...hits, message("a", 8), message("b", 7)].map(hitKey)).size).toBe(6);
});

test("speakers have display names, a tool its own", () => {
  expect(["human", "ai", "harness", "tool", "other"].map((speaker) => speakerName({ speaker }))).toEqual([
    "You",
    "Agent",
    "Harness",
    "Tool",
    "other",
  ]);
  expect(speakerName({ speaker: "tool", tool: "ls" })).toBe("ls");
});

test("a time range starts at a whole minute", () => {
  const now = Date.parse("2026-03-08T09:00:41.5Z");
  expect(rangeStart("ever", now)).toBeUndefined();
  expect(rangeStart("week", now)).toBe("2026-03-01T09:00:00.000Z");
});

test("a search says what it did not compare by meaning", () => {
  expect(meaningNote({ state: "off" })).toBe("");
  expect(meaningNote({ state: "compared", missing: 0 })).toBe("");
  expect(meaningNote({ state: "compared", missing: 1 })).toBe(
    "Up to 1 message has no embedding yet: only its words were compared.",
  );
  expect(meaningNote({ state: "compared", missing: 1_200 })).toBe(
    "Up to 1,200 messages have no embedding yet: only their words were compared.",
  );
  expect(meaningNote({ state: "unavailable", reason: "failed to reach it" })).toBe(
    "Only words were compared: failed to reach it.",
  );
});

test("messages that were not searched are counted", () => {
  expect(backlogNote({ messages: 0, threads: 0 })).toBe("");
  expect(backlogNote({ messages: 1, threads: 1 })).toBe(
    "1 message of 1 thread is not indexed yet and was not searched. The hits are updated as they are indexed.",
  );
  expect(backlogNote({ messages: 12_000, threads: 7 })).toMatch(
    /^12,000 messages of 7 threads are not indexed yet and were not searched\./,
  );
});
