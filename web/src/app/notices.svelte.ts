// Notices (toasts): results, errors with hints, and actions that can be undone.
import { ApiError } from "../api/client";

/**
 * Milliseconds for which a notice is shown. A notice with an undo action stays as long as undoing is
 * possible.
 */
const NOTICE_MS = 6_000;

/** The maximum number of notices without an action. */
const NOTICES_MAX = 4;

export interface Notice {
  id: number;
  text: string;
  hint: string | null;
  tone: "plain" | "bad";
  action: { label: string; run: () => void } | null;
}

export const notices = $state<{ shown: Notice[] }>({ shown: [] });
let lastId = 0;

/** Shows a notice; `action` adds a button. Returns a function that dismisses the notice. */
export function notify(
  text: string,
  options: { hint?: string | null; tone?: Notice["tone"]; action?: Notice["action"]; ms?: number } = {},
): () => void {
  const id = ++lastId;
  const {
    hint = null,
    tone = "plain",
    action = null,
    ms = tone === "bad" ? 2 * NOTICE_MS : NOTICE_MS,
  } = options;
  const dismiss = () => {
    notices.shown = notices.shown.filter((notice) => notice.id !== id);
  };
  notices.shown = trimNotices([...notices.shown, { id, text, hint, tone, action }]);
  setTimeout(dismiss, ms);
  return dismiss;
}

/**
 * Drops the oldest notices beyond the limit. Notices with an action are kept, because they may be the only
 * way to undo it.
 */
function trimNotices(all: Notice[]): Notice[] {
  const isRecent = (at: number) => at >= all.length - NOTICES_MAX;
  return all.filter((notice, at) => notice.action !== null || isRecent(at));
}

/** Shows an error with the server's message. Aborted requests are not errors. */
export function notifyError(action: string, error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  const hint = error instanceof ApiError ? error.hint : null;
  const reason = error instanceof Error ? error.message : String(error);
  notify(`${action}: ${reason}`, { hint, tone: "bad" });
}
