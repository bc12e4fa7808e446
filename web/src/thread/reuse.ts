// Reuses unchanged conversation items, so that only changed ones are rendered again. Pure.
import type { ToolInvocation, ConversationItem } from "./items";

/** Returns `next` with unchanged items replaced by the objects of `before`. */
export function reuseItems(
  before: readonly ConversationItem[],
  next: readonly ConversationItem[],
): readonly ConversationItem[] {
  const previousByKey = new Map(before.map((item) => [item.key, item]));
  return next.map((item) => {
    const previous = previousByKey.get(item.key);
    return previous && isSameItem(previous, item) ? previous : item;
  });
}

function isSameItem(a: ConversationItem, b: ConversationItem): boolean {
  if (a.kind !== b.kind || a.seq !== b.seq) return false;
  if (a.kind === "streaming" || b.kind === "streaming") return false;
  if (a.entry !== b.entry) return false;
  if (a.kind === "ai" && b.kind === "ai")
    return a.calls.length === b.calls.length && a.calls.every((call, at) => isSameCall(call, b.calls[at]));
  if (a.kind === "tool" && b.kind === "tool") return isSameCall(a.call, b.call);
  if (a.kind === "marker" && b.kind === "marker") return a.undone === b.undone;
  return true;
}

function isSameCall(a: ToolInvocation, b: ToolInvocation | undefined): boolean {
  if (!b || a.id !== b.id || a.result !== b.result) return false;
  if (a.progress === b.progress) return true;
  return (
    !!a.progress &&
    !!b.progress &&
    a.progress.since === b.progress.since &&
    a.progress.output === b.progress.output &&
    a.progress.currentTool === b.progress.currentTool &&
    a.progress.thread === b.progress.thread
  );
}
