// What is said of a call on one line.
import { expect, test } from "vitest";
import type { JsonObject } from "../../api/types";
import type { Call } from "../../thread/items";
import { about, editsOf, folded, outcome, sortOf, stateOf, todosOf } from "./about";

const call = (text: string | null, status: "success" | "error" = "success", name = "execute"): Call => ({
  id: "c",
  name,
  args: {},
  working: null,
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
])("%s %j", (name, args, expected) => expect(about(name, args)).toBe(expected));

test("what came of a call is said in a few words", () => {
  expect(outcome(call("a\nb\n"))).toBe("2 lines");
  expect(outcome(call(""))).toBe("no output");
  expect(outcome(call("a\n[10 bytes left out]\nb"))).toBe("3 lines, cut");
  expect(outcome(call("\nno such file\nmore", "error"))).toBe("no such file");
  expect(outcome(call("The person declined this call: too early", "error"))).toBe("declined: too early");
  expect(stateOf(call("The person declined this call.", "error"))).toBe("refused");
  expect(stateOf(call(null))).toBe("waiting");
  for (const text of [
    "(no output)\n[cancelled]",
    "The person stopped the run before the tool was done. It may …",
  ]) {
    expect(stateOf(call(text, "error"))).toBe("stopped");
    expect(outcome(call(text, "error"))).toBe("stopped");
  }
});

test("a change says how many lines come and go", () => {
  const edit = {
    ...call("ok", "success", "edit_file"),
    args: { path: "a", old_string: "a\nb", new_string: "a\nc\nd" },
  };
  expect(outcome(edit)).toBe("+2 −1");
  expect(outcome({ ...call("ok", "success", "write_file"), args: { path: "a", content: "a\nb\n" } })).toBe(
    "2 lines",
  );
  expect(folded("edit", "/a/b/c.rs")).toEqual(["/a/b/", "c.rs"]);
  expect(folded("read", "src/")).toEqual(["", "src/"]);
  expect(folded("command", "ls /a/b")).toEqual(["", "ls /a/b"]);
});

test("tools of other agents are known by what they do", () => {
  expect(sortOf("MultiEdit")).toBe("edit");
  expect(editsOf({ edits: [{ old_string: "a", new_string: "b" }, 1] })).toEqual([
    { before: "a", after: "b" },
  ]);
  expect(todosOf({ todos: ["x", { text: "y", status: "?" }] })).toEqual([
    { content: "y", status: "pending" },
  ]);
});
