// What was written and not sent, for each thread, for as long as the tab is open.
import { keepText, keptText } from "../app/kept";

const key = (thread: string) => `segue.draft.${thread}`;

/** Returns what was written to that thread. */
export const draftOf = (thread: string): string => keptText("tab", key(thread)) ?? "";

/** Keeps what is written to that thread. */
export const keepDraft = (thread: string, text: string): void => keepText("tab", key(thread), text || null);
