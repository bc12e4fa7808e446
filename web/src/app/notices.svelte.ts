// Short messages at the edge of the page: what was done, what failed and what to do next, what can be undone.
import { ApiError } from "../api/client";

/** Milliseconds for which a message stays; one that can be undone stays as long as it can. */
const NOTICE_MS = 6_000;

/** Messages that are shown at once, beyond those that can be acted upon. */
const SHOWN_MAX = 4;

export interface Notice {
  id: number;
  text: string;
  hint: string | null;
  tone: "plain" | "bad";
  action: { label: string; run: () => void } | null;
}

export const notices = $state<{ shown: Notice[] }>({ shown: [] });
let last = 0;

/** Shows a message; `action` is a button beside it. Returns what takes it away. */
export function notify(
  text: string,
  options: { hint?: string | null; tone?: Notice["tone"]; action?: Notice["action"]; ms?: number } = {},
): () => void {
  const id = ++last;
  const {
    hint = null,
    tone = "plain",
    action = null,
    ms = tone === "bad" ? 2 * NOTICE_MS : NOTICE_MS,
  } = options;
  const dismiss = () => {
    notices.shown = notices.shown.filter((notice) => notice.id !== id);
  };
  notices.shown = fitting([...notices.shown, { id, text, hint, tone, action }]);
  setTimeout(dismiss, ms);
  return dismiss;
}

/** Leaves the oldest messages out where there are too many; never one with a button, for that may be the only way back. */
function fitting(all: Notice[]): Notice[] {
  const isNewest = (at: number) => at >= all.length - SHOWN_MAX;
  return all.filter((notice, at) => notice.action !== null || isNewest(at));
}

/** Shows why something failed, in the server's words. What was given up on purpose is no failure. */
export function failed(what: string, error: unknown): void {
  if (error instanceof DOMException && error.name === "AbortError") return;
  const hint = error instanceof ApiError ? error.hint : null;
  const reason = error instanceof Error ? error.message : String(error);
  notify(`${what}: ${reason}`, { hint, tone: "bad" });
}
