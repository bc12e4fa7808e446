// Stores unsent review text per tab, so that leaving the page loses nothing.
import type { Proposal } from "../api/types";
import { storeText, loadText } from "../app/storage";
import { isModified, type SummaryEdit } from "./edit";
import { editFacts } from "./facts";

const storageKey = (handoff: string, field: string) => `segue.handoff.${handoff}.${field}`;

/** Stores a value; `null` removes it. */
export function storeUnsent(handoff: string, field: string, value: unknown): void {
  const isEmpty = value === null || value === "";
  storeText("tab", storageKey(handoff, field), isEmpty ? null : JSON.stringify(value));
}

/** Stores an edit if it differs from its draft. While the drafts are loading, the stored edit is kept. */
export function storeEdit(
  handoff: string,
  edit: SummaryEdit | null,
  proposals: readonly Proposal[] | null,
): void {
  if (proposals) storeUnsent(handoff, "edit", isModified(edit, proposals) ? edit : null);
}

export function loadUnsent<T>(handoff: string, what: string): T | null {
  const text = loadText("tab", storageKey(handoff, what));
  try {
    return text === null ? null : (JSON.parse(text) as T);
  } catch {
    return null;
  }
}

/** Returns the stored edit, or null. An edit that an earlier version of the page stored has the facts of its Markdown. */
export function loadEdit(handoff: string): SummaryEdit | null {
  const edit = loadUnsent<SummaryEdit>(handoff, "edit");
  if (!edit) return null;
  const { draftMarkdown = edit.markdown, facts = editFacts(draftMarkdown) } = edit as Partial<SummaryEdit>;
  return { ...edit, draftMarkdown, facts };
}
