// What was written and not sent, for each thread, for as long as the tab is open.

const key = (thread: string) => `segue.draft.${thread}`;

/** Returns what was written to that thread. */
export function draftOf(thread: string): string {
  try {
    return sessionStorage.getItem(key(thread)) ?? "";
  } catch {
    return "";
  }
}

/** Keeps what is written to that thread. Where the browser keeps nothing, it stays on the screen only. */
export function keepDraft(thread: string, text: string): void {
  try {
    if (text) sessionStorage.setItem(key(thread), text);
    else sessionStorage.removeItem(key(thread));
  } catch {
    // There is no room, or nothing may be kept here.
  }
}
