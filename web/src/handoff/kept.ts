// What a person typed and did not send, kept in this tab: a look at a message and back loses nothing.
import type { Proposal } from "../api/types";
import { keepText, keptText } from "../app/kept";
import { isWritten, type Edit } from "./edit";

const name = (handoff: string, what: string) => `segue.handoff.${handoff}.${what}`;

/** Keeps a value; `null` forgets it. */
export function keep(handoff: string, what: string, value: unknown): void {
  const isEmpty = value === null || value === "";
  keepText("tab", name(handoff, what), isEmpty ? null : JSON.stringify(value));
}

/** Keeps an edit in which something was written. Before the drafts are known, nobody can say, and what was kept stays. */
export function keepEdit(handoff: string, edit: Edit | null, proposals: readonly Proposal[] | null): void {
  if (proposals) keep(handoff, "edit", isWritten(edit, proposals) ? edit : null);
}

export function kept<T>(handoff: string, what: string): T | null {
  const text = keptText("tab", name(handoff, what));
  try {
    return text === null ? null : (JSON.parse(text) as T);
  } catch {
    return null;
  }
}
