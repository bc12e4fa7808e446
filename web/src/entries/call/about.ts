// A call of a tool in a few words: what it is about, how it stands, what came of it. The tools are those of Segue and of the
// agents whose sessions can be imported; of others, all arguments are told.
import type { Json, JsonObject } from "../../api/types";
import type { Call } from "../../thread/items";
import { counted } from "../../ui/format";
import type { IconName } from "../../ui/icons";
import { changes } from "../diff/lines";
import { oneLine } from "../text/inert";
import { lineCount } from "../text/output";

export type Sort = "command" | "edit" | "write" | "read" | "search" | "todos" | "task" | "other";

const SORTS: Record<string, Sort> = {
  execute: "command",
  bash: "command",
  shell: "command",
  run_command: "command",
  exec_command: "command",
  local_shell: "command",
  edit_file: "edit",
  edit: "edit",
  multiedit: "edit",
  write_file: "write",
  write: "write",
  read_file: "read",
  read: "read",
  ls: "read",
  glob: "search",
  grep: "search",
  recall: "search",
  search_history: "search",
  websearch: "search",
  write_todos: "todos",
  todowrite: "todos",
  task: "task",
  agent: "task",
};

export const icons: Record<Sort, IconName> = {
  command: "terminal",
  edit: "edit",
  write: "file",
  read: "eye",
  search: "search",
  todos: "list",
  task: "spark",
  other: "tool",
};

/** Returns what sort of tool it is. */
export function sortOf(name: string): Sort {
  const called = name.toLowerCase();
  return Object.hasOwn(SORTS, called) ? (SORTS[called] ?? "other") : "other";
}

const text = (args: JsonObject, ...keys: string[]): string | null => {
  for (const key of keys) {
    const value = args[key];
    if (typeof value === "string") return value;
    if (Array.isArray(value) && value.every((part) => typeof part === "string")) return value.join(" ");
  }
  return null;
};

export const commandOf = (args: JsonObject) => text(args, "command", "cmd");
export const pathOf = (args: JsonObject) => text(args, "path", "file_path", "notebook_path", "filename");

/** Returns the argument that matters, on one line. */
export function about(name: string, args: JsonObject): string {
  switch (sortOf(name)) {
    case "command":
      return oneLine(commandOf(args) ?? rest(args));
    case "edit":
    case "write":
      return oneLine(pathOf(args) ?? rest(args));
    case "read": {
      const path = pathOf(args) ?? (name === "ls" ? "." : null);
      return path === null ? oneLine(rest(args)) : `${oneLine(path)}${lines(args)}`;
    }
    case "search": {
      const what = text(args, "pattern", "query", "range");
      const where = pathOf(args);
      if (what === null) return oneLine(rest(args));
      return oneLine(where && where !== "." ? `${what} in ${where}` : what);
    }
    case "todos": {
      const done = todosOf(args).filter((todo) => todo.status === "completed").length;
      return `${done} of ${todosOf(args).length} done`;
    }
    case "task":
      return oneLine(text(args, "description", "prompt") ?? rest(args));
    case "other":
      return oneLine(text(args, "url", "query", "path") ?? rest(args));
  }
}

function rest(args: JsonObject): string {
  return Object.entries(args)
    .map(
      ([key, value]) => `${key}=${typeof value === "string" ? value.slice(0, 300) : JSON.stringify(value)}`,
    )
    .join(" ");
}

function lines(args: JsonObject): string {
  const { offset, limit } = args;
  const first = typeof offset === "number" ? Math.max(1, offset) : 1;
  if (typeof limit === "number") return ` (${first}–${first + limit - 1})`;
  return typeof offset === "number" ? ` (${first}–)` : "";
}

/** Returns the tasks that a call writes down. */
export function todosOf(
  args: JsonObject,
): { content: string; status: "pending" | "in_progress" | "completed" }[] {
  const todos = Array.isArray(args.todos) ? args.todos : [];
  return todos.flatMap((todo: Json) => {
    if (typeof todo !== "object" || todo === null || Array.isArray(todo)) return [];
    const status = todo.status;
    const content = typeof todo.content === "string" ? todo.content : String(todo.text ?? "");
    return [
      { content, status: status === "completed" || status === "in_progress" ? status : ("pending" as const) },
    ];
  });
}

/** Returns the replacements that a call makes. */
export function editsOf(args: JsonObject): { before: string; after: string }[] {
  const edit = (from: JsonObject) => {
    const [before, after] = [text(from, "old_string", "old_str"), text(from, "new_string", "new_str")];
    return before === null && after === null ? [] : [{ before: before ?? "", after: after ?? "" }];
  };
  const more = Array.isArray(args.edits) ? args.edits : [];
  const isObject = (one: Json): one is JsonObject =>
    typeof one === "object" && one !== null && !Array.isArray(one);
  return [...edit(args), ...more.filter(isObject).flatMap(edit)];
}

/** Characters of edits up to which their lines are compared only to count them. */
const COUNTED_CHARS = 20_000;

/** `+3 −1`: how many lines come and go. */
function counts(edits: { before: string; after: string }[]): string {
  const size = edits.reduce((sum, { before, after }) => sum + before.length + after.length, 0);
  if (size === 0 || size > COUNTED_CHARS) return "changed";
  const found = edits.map(({ before, after }) => changes(before, after));
  const sum = (side: "added" | "removed") => found.reduce((all, change) => all + change[side], 0);
  return `+${sum("added")} −${sum("removed")}`;
}

/** Returns a path in two: the folders, which may be cut, and the name, which may not. */
export function folded(sort: Sort, text: string): [string, string] {
  const cut = ["edit", "write", "read"].includes(sort) ? text.lastIndexOf("/", text.length - 2) + 1 : 0;
  return cut > 0 ? [text.slice(0, cut), text.slice(cut)] : ["", text];
}

export type State = "running" | "waiting" | "done" | "failed" | "refused" | "stopped";

/** Returns how the call stands. */
export function stateOf(call: Call): State {
  if (!call.result) return call.working ? "running" : "waiting";
  if (call.result.status !== "error") return "done";
  const said = resultOf(call);
  if (/^The person stopped the run|(?:^|\n)\[cancelled\]$/.test(said)) return "stopped";
  return /^(?:The person declined this call|Not done: )/.test(said) ? "refused" : "failed";
}

/** Returns the text of the result. */
export function resultOf({ result }: Call): string {
  return (result?.content ?? []).flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}

/** Returns what came of the call, in a few words. */
export function outcome(call: Call): string {
  const said = resultOf(call);
  switch (stateOf(call)) {
    case "running":
    case "waiting":
      return "";
    case "stopped":
      return "stopped";
    case "refused": {
      if (said.startsWith("Not done")) return oneLine(said, 160);
      const why = /^The person declined this call: ([^]*)/.exec(said)?.[1];
      return why ? `declined: ${oneLine(why, 120)}` : "declined";
    }
    case "failed": {
      const first = said.split("\n", 50).find((line) => line.trim());
      return first ? oneLine(first, 160) : "failed";
    }
    case "done": {
      const sort = sortOf(call.name);
      if (sort === "todos") return "";
      if (sort === "edit") return counts(editsOf(call.args));
      if (sort === "write" && typeof call.args.content === "string")
        return counted(lineCount(call.args.content), "line");
      const count = lineCount(said.trimEnd());
      if (count === 0)
        return call.result?.content.some(({ type }) => type === "media") ? "a file" : "no output";
      return `${counted(count, "line")}${said.includes(" bytes left out") ? ", cut" : ""}`;
    }
  }
}
