// Message drafts and suggested messages, stored per thread and tab.
import { storeText, loadText } from "../app/storage";

const draftKey = (thread: string) => `segue.draft.${thread}`;

/** Returns the draft of a thread. */
export const loadDraft = (thread: string): string => loadText("tab", draftKey(thread)) ?? "";

/** Stores the draft of a thread. */
export const storeDraft = (thread: string, text: string): void =>
  storeText("tab", draftKey(thread), text || null);

const suggestionKey = (thread: string) => `segue.suggestion.${thread}`;

/** Returns the message that is suggested in a thread; empty if there is none. */
export const loadSuggestion = (thread: string): string => loadText("tab", suggestionKey(thread)) ?? "";

/** Stores the message that is suggested in a thread, or removes it. */
export const storeSuggestion = (thread: string, text: string | null): void =>
  storeText("tab", suggestionKey(thread), text);
