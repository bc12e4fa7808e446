import { expect, test } from "vitest";
import type { ThreadRow } from "../api/types";
import { isMergeTarget, mergeSources, mergeTargets, targetLabel } from "./merge";

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

test("two children with the same title are told apart by id and age", () => {
  const at = Date.parse("2026-06-01T12:00:00Z");
  const named = (thread_id: string, created_at: string) => row(thread_id, { name: "Kettle", created_at });
  const rows = [
    named("01980000-1111-7000-8000-000000000000", "2026-06-01T09:00:00Z"),
    named("01980000-2222-7000-8000-000000000000", "2026-06-01T11:59:50Z"),
    named("01970000-2222-7000-8000-000000000000", "2026-05-30T12:00:00Z"),
  ];
  expect(rows.map((one) => targetLabel(one, rows, at))).toEqual([
    "“Kettle”, with its summary (01980000-1111, created 3h ago)",
    "“Kettle”, with its summary (01980000-2222, created just now)",
    "“Kettle”, with its summary (01970000-2222, created 2d ago)",
  ]);
});
