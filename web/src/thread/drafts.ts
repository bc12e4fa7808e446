// Message drafts, stored per thread and tab.
import { storeText, loadText } from "../app/storage";

const draftKey = (thread: string) => `segue.draft.${thread}`;

/** Returns the draft of a thread. */
export const loadDraft = (thread: string): string => loadText("tab", draftKey(thread)) ?? "";

/** Stores the draft of a thread. */
export const storeDraft = (thread: string, text: string): void =>
  storeText("tab", draftKey(thread), text || null);
