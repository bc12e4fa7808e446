// The summary line of a tool call: its kind, argument, state and result. It knows the tools of Segue and of
// the agents whose sessions can be imported; for other tools it lists all arguments.
import type { Json, JsonObject } from "../../api/types";
import type { ToolInvocation } from "../../thread/items";
import { formatCount } from "../../ui/format";
import type { IconName } from "../../ui/icons";
import { diffTexts } from "../diff/diff";
import { oneLine } from "../text/hiddenCharacters";
import { lineCount } from "../text/output";

export type ToolKind = "command" | "edit" | "write" | "read" | "search" | "todos" | "task" | "other";

const TOOL_KINDS: Record<string, ToolKind> = {
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

export const TOOL_ICONS: Record<ToolKind, IconName> = {
  command: "terminal",
  edit: "edit",
  write: "file",
  read: "eye",
  search: "search",
  todos: "list",
  task: "spark",
  other: "tool",
};

/** Returns the kind of a tool. */
export function toolKindOf(name: string): ToolKind {
  const key = name.toLowerCase();
  return Object.hasOwn(TOOL_KINDS, key) ? (TOOL_KINDS[key] ?? "other") : "other";
}

const textArgument = (args: JsonObject, ...keys: string[]): string | null => {
  for (const key of keys) {
    const value = args[key];
    if (typeof value === "string") return value;
    if (Array.isArray(value) && value.every((part) => typeof part === "string")) return value.join(" ");
  }
  return null;
};

export const commandOf = (args: JsonObject) => textArgument(args, "command", "cmd");
export const pathOf = (args: JsonObject) =>
  textArgument(args, "path", "file_path", "notebook_path", "filename");

/** Returns the most important argument on one line. */
export function argumentSummary(name: string, args: JsonObject): string {
  switch (toolKindOf(name)) {
    case "command":
      return oneLine(commandOf(args) ?? joinArguments(args));
    case "edit":
    case "write":
      return oneLine(pathOf(args) ?? joinArguments(args));
    case "read": {
      const path = pathOf(args) ?? (name === "ls" ? "." : null);
      return path === null ? oneLine(joinArguments(args)) : `${oneLine(path)}${lineRange(args)}`;
    }
    case "search": {
      const pattern = textArgument(args, "pattern", "query", "range");
      const path = pathOf(args);
      if (pattern === null) return oneLine(joinArguments(args));
      return oneLine(path && path !== "." ? `${pattern} in ${path}` : pattern);
    }
    case "todos": {
      const done = todosOf(args).filter((todo) => todo.status === "completed").length;
      return `${done} of ${todosOf(args).length} done`;
    }
    case "task":
      return oneLine(textArgument(args, "description", "prompt") ?? joinArguments(args));
    case "other":
      return oneLine(textArgument(args, "url", "query", "path") ?? joinArguments(args));
  }
}

function joinArguments(args: JsonObject): string {
  return Object.entries(args)
    .map(
      ([key, value]) => `${key}=${typeof value === "string" ? value.slice(0, 300) : JSON.stringify(value)}`,
    )
    .join(" ");
}

function lineRange(args: JsonObject): string {
  const { offset, limit } = args;
  const first = typeof offset === "number" ? Math.max(1, offset) : 1;
  if (typeof limit === "number") return ` (${first}–${first + limit - 1})`;
  return typeof offset === "number" ? ` (${first}–)` : "";
}

/** Returns the tasks in the arguments of a call. */
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

/** Returns the replacements in the arguments of a call. */
export function editsOf(args: JsonObject): { before: string; after: string }[] {
  const toEdit = (from: JsonObject) => {
    const [before, after] = [
      textArgument(from, "old_string", "old_str"),
      textArgument(from, "new_string", "new_str"),
    ];
    return before === null && after === null ? [] : [{ before: before ?? "", after: after ?? "" }];
  };
  const moreEdits = Array.isArray(args.edits) ? args.edits : [];
  const isObject = (value: Json): value is JsonObject =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  return [...toEdit(args), ...moreEdits.filter(isObject).flatMap(toEdit)];
}

/** The size limit in characters above which edits are not compared for the line counts. */
const DIFF_CHARS_MAX = 20_000;

/** Returns the number of added and removed lines, such as `+3 −1`. */
function lineCounts(edits: { before: string; after: string }[]): string {
  const size = edits.reduce((sum, { before, after }) => sum + before.length + after.length, 0);
  if (size === 0 || size > DIFF_CHARS_MAX) return "changed";
  const diffs = edits.map(({ before, after }) => diffTexts(before, after));
  const sum = (side: "added" | "removed") => diffs.reduce((all, change) => all + change[side], 0);
  return `+${sum("added")} −${sum("removed")}`;
}

/** Splits a path into the folder, which may be truncated, and the file name. */
export function splitPath(kind: ToolKind, text: string): [string, string] {
  const cut = ["edit", "write", "read"].includes(kind) ? text.lastIndexOf("/", text.length - 2) + 1 : 0;
  return cut > 0 ? [text.slice(0, cut), text.slice(cut)] : ["", text];
}

export type CallState = "running" | "waiting" | "done" | "failed" | "refused" | "stopped";

/** Returns the state of the call. */
export function callStateOf(call: ToolInvocation): CallState {
  if (!call.result) return call.progress ? "running" : "waiting";
  if (call.result.status !== "error") return "done";
  const resultText = resultTextOf(call);
  if (/^The person stopped the run|(?:^|\n)\[cancelled\]$/.test(resultText)) return "stopped";
  return /^(?:The person declined this call|Not done: )/.test(resultText) ? "refused" : "failed";
}

/** Returns the text of the result. */
export function resultTextOf({ result }: ToolInvocation): string {
  return (result?.content ?? []).flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}

/** Returns a short description of the result. */
export function resultSummaryOf(call: ToolInvocation): string {
  const resultText = resultTextOf(call);
  switch (callStateOf(call)) {
    case "running":
    case "waiting":
      return "";
    case "stopped":
      return "stopped";
    case "refused": {
      if (resultText.startsWith("Not done")) return oneLine(resultText, 160);
      const reason = /^The person declined this call: ([^]*)/.exec(resultText)?.[1];
      return reason ? `declined: ${oneLine(reason, 120)}` : "declined";
    }
    case "failed": {
      const first = resultText.split("\n", 50).find((line) => line.trim());
      return first ? oneLine(first, 160) : "failed";
    }
    case "done": {
      const sort = toolKindOf(call.name);
      if (sort === "todos") return "";
      if (sort === "edit") return lineCounts(editsOf(call.args));
      if (sort === "write" && typeof call.args.content === "string")
        return formatCount(lineCount(call.args.content), "line");
      const count = lineCount(resultText.trimEnd());
      if (count === 0)
        return call.result?.content.some(({ type }) => type === "media") ? "a file" : "no output";
      return `${formatCount(count, "line")}${resultText.includes(" bytes left out") ? ", cut" : ""}`;
    }
  }
}
