import { expect, test, vi } from "vitest";
import type { Hit } from "../api/types";
import { grouped, keyOf, momentOf, placeOf, speakerOf } from "./places";

vi.mock("../app/router.svelte", () => ({
  to: {
    thread: (id: string, at: number) => `thread ${id} at ${at}`,
    memory: (id: string) => `memory ${id}`,
    handoff: (id: string) => `handoff ${id}`,
  },
}));

const found = { created_at: "2026-03-01T09:00:00Z", score: 1, snippet: "x" };
const message = (thread_id: string, seq: number): Hit => ({
  ...found,
  kind: "message",
  thread_id,
  seq,
  speaker: "ai",
  before: null,
  after: null,
});
const handoff: Hit = {
  ...found,
  kind: "handoff",
  handoff_id: "h",
  parent_thread_id: "a",
  child_thread_id: "c",
};
const item: Hit = { ...found, kind: "item", namespace: ["users", "ada"], key: "tea" };
const summary = (thread_id: string | null): Hit => ({
  ...found,
  kind: "summary",
  summary_id: "s",
  thread_id,
  first_turn: 1,
  last_turn: 4,
});

test("hits stand under their thread, the best first, and what has none under its own name", () => {
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
    grouped(hits).map(({ thread, name, hits }) => [thread ?? name, hits.map(({ kind }) => kind)]),
  ).toEqual([
    ["b", ["message", "message"]],
    ["a", ["handoff", "message", "summary"]],
    ["The store", ["item"]],
    ["A thread that was deleted", ["summary"]],
  ]);
});

test("each hit leads to its place, and is told from every other", () => {
  const hits = [message("a", 7), summary("a"), handoff, item];
  expect(hits.map(placeOf)).toEqual(["thread a at 7", "memory s", "handoff h", null]);
  expect(new Set([...hits, message("a", 8), message("b", 7)].map(keyOf)).size).toBe(6);
});

test("who said something is called by a word, a tool by its name", () => {
  expect(["human", "ai", "harness", "tool", "other"].map((speaker) => speakerOf({ speaker }))).toEqual([
    "You",
    "Agent",
    "Harness",
    "Tool",
    "other",
  ]);
  expect(speakerOf({ speaker: "tool", tool: "ls" })).toBe("ls");
});

test("a span of time begins at a whole minute", () => {
  const now = Date.parse("2026-03-08T09:00:41.5Z");
  expect(momentOf("ever", now)).toBeUndefined();
  expect(momentOf("week", now)).toBe("2026-03-01T09:00:00.000Z");
});
