// Which of the things that are to be drawn are the same as before, so that only what changed is drawn again. Pure.
import type { Call, Item } from "./items";

/** Returns `next`, with the very things of `before` wherever nothing of them changed. */
export function kept(before: readonly Item[], next: readonly Item[]): readonly Item[] {
  const known = new Map(before.map((item) => [item.key, item]));
  return next.map((item) => {
    const old = known.get(item.key);
    return old && isSame(old, item) ? old : item;
  });
}

function isSame(a: Item, b: Item): boolean {
  if (a.kind !== b.kind || a.seq !== b.seq) return false;
  if (a.kind === "saying" || b.kind === "saying") return false;
  if (a.entry !== b.entry) return false;
  if (a.kind === "ai" && b.kind === "ai")
    return a.calls.length === b.calls.length && a.calls.every((call, at) => isSameCall(call, b.calls[at]));
  if (a.kind === "tool" && b.kind === "tool") return isSameCall(a.call, b.call);
  if (a.kind === "marker" && b.kind === "marker") return a.undone === b.undone;
  return true;
}

function isSameCall(a: Call, b: Call | undefined): boolean {
  if (!b || a.id !== b.id || a.result !== b.result) return false;
  if (a.working === b.working) return true;
  return (
    !!a.working &&
    !!b.working &&
    a.working.since === b.working.since &&
    a.working.output === b.working.output &&
    a.working.doing === b.working.doing &&
    a.working.thread === b.working.thread
  );
}
