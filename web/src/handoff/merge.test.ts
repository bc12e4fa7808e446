import { expect, test } from "vitest";
import type { ThreadRow } from "../api/types";
import { isMergeTarget, mergeSources, mergeTargets } from "./merge";

const row = (thread_id: string, fields: Partial<ThreadRow> = {}): ThreadRow => ({
  thread_id,
  name: null,
  first_prompt: null,
  title: null,
  state: "idle",
  status: "idle",
  message_count: 2,
  last_seq: 1,
  tokens: null,
  parent_id: null,
  parent_kind: null,
  handoff_id: null,
  pending_handoff_id: null,
  created_at: "",
  updated_at: "",
  ...fields,
});
const child = row("child", { parent_id: "parent", parent_kind: "handoff", message_count: 0 });
const ids = (rows: ThreadRow[]) => rows.map(({ thread_id }) => thread_id);

test("only a child of a handoff without messages gets a further summary", () => {
  expect(isMergeTarget(child)).toBe(true);
  expect(isMergeTarget({ ...child, message_count: 1 })).toBe(false);
  expect(isMergeTarget({ ...child, parent_kind: "fork" })).toBe(false);
});

test("threads with messages are offered, except the parents of the child", () => {
  const merged = { ...child, merged_parents: [{ thread_id: "second", handoff_id: "h", title: null }] };
  const rows = [row("parent"), row("second"), row("other"), row("empty", { message_count: 0 }), child];
  expect(ids(mergeSources(rows, merged))).toEqual(["other"]);
});

test("a thread is not offered its own child", () => {
  expect(ids(mergeTargets([row("parent"), row("other"), child], "other"))).toEqual(["child"]);
  expect(ids(mergeTargets([row("parent"), child], "parent"))).toEqual([]);
});
