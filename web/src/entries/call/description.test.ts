// The summary line of a call.
import { expect, test } from "vitest";
import type { JsonObject } from "../../api/types";
import type { ToolInvocation } from "../../thread/items";
import {
  argumentSummary,
  editsOf,
  splitPath,
  resultSummaryOf,
  toolKindOf,
  callStateOf,
  todosOf,
} from "./description";

const invocation = (
  text: string | null,
  status: "success" | "error" = "success",
  name = "execute",
): ToolInvocation => ({
  id: "c",
  name,
  args: {},
  progress: null,
  result:
    text === null
      ? null
      : {
          id: "m",
          seq: 1,
          run_id: null,
          created_at: "",
          type: "tool",
          call_id: "c",
          status,
          content: [{ type: "text", text }],
        },
});

test.each<[string, JsonObject, string]>([
  ["read_file", { path: "a.rs" }, "a.rs"],
  ["read_file", { path: "a.rs", offset: 1, limit: 200 }, "a.rs (1–200)"],
  ["read_file", { path: "a.rs", offset: 20 }, "a.rs (20–)"],
  ["grep", { pattern: "fn \n main", path: "src" }, "fn main in src"],
  ["ls", {}, "."],
  ["execute", { command: "ls -l\u202e" }, "ls -l⟨U+202E⟩"],
  ["Bash", { command: "ls" }, "ls"],
  ["shell", { command: ["ls", "-l"] }, "ls -l"],
  ["Edit", { file_path: "/a/b", old_string: "x" }, "/a/b"],
  ["write_todos", { todos: [{ content: "a", status: "completed" }, { content: "b" }] }, "1 of 2 done"],
  ["task", { description: "Look" }, "Look"],
  ["mcp__x", { a: "b", n: 2 }, "a=b n=2"],
  ["constructor", {}, ""],
])("%s %j", (name, args, expected) => expect(argumentSummary(name, args)).toBe(expected));

test("a result has a short description", () => {
  expect(resultSummaryOf(invocation("a\nb\n"))).toBe("2 lines");
  expect(resultSummaryOf(invocation(""))).toBe("no output");
  expect(resultSummaryOf(invocation("a\n[10 bytes left out]\nb"))).toBe("3 lines, cut");
  expect(resultSummaryOf(invocation("\nno such file\nmore", "error"))).toBe("no such file");
  expect(resultSummaryOf(invocation("The person declined this call: too early", "error"))).toBe(
    "declined: too early",
  );
  expect(callStateOf(invocation("The person declined this call.", "error"))).toBe("refused");
  expect(callStateOf(invocation(null))).toBe("waiting");
  for (const text of [
    "(no output)\n[cancelled]",
    "The person stopped the run before the tool was done. It may …",
  ]) {
    expect(callStateOf(invocation(text, "error"))).toBe("stopped");
    expect(resultSummaryOf(invocation(text, "error"))).toBe("stopped");
  }
});

test("an edit shows the changed line counts", () => {
  const edit = {
    ...invocation("ok", "success", "edit_file"),
    args: { path: "a", old_string: "a\nb", new_string: "a\nc\nd" },
  };
  expect(resultSummaryOf(edit)).toBe("+2 −1");
  expect(
    resultSummaryOf({ ...invocation("ok", "success", "write_file"), args: { path: "a", content: "a\nb\n" } }),
  ).toBe("2 lines");
  expect(splitPath("edit", "/a/b/c.rs")).toEqual(["/a/b/", "c.rs"]);
  expect(splitPath("read", "src/")).toEqual(["", "src/"]);
  expect(splitPath("command", "ls /a/b")).toEqual(["", "ls /a/b"]);
});

test("tools of other agents are recognized", () => {
  expect(toolKindOf("MultiEdit")).toBe("edit");
  expect(editsOf({ edits: [{ old_string: "a", new_string: "b" }, 1] })).toEqual([
    { before: "a", after: "b" },
  ]);
  expect(todosOf({ todos: ["x", { text: "y", status: "?" }] })).toEqual([
    { content: "y", status: "pending" },
  ]);
});
