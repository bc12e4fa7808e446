// Sends a message. It counts as sent when it is in the thread or in its queue. Otherwise the caller keeps the
// text and shows the failure.
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";

/** The failure of a request and how to fix it. */
export interface RequestFailure {
  text: string;
  hint: string | null;
  /** True if the request may have succeeded, because no response was received. */
  isUncertain: boolean;
}

const MESSAGE_KEPT = "The message is still here. Send it again after fixing the problem.";
/** The number of newest entries that are searched for the sent message. */
const NEWEST_ENTRIES = 20;

/** Converts an error for display. */
export function toFailure(action: string, error: unknown): RequestFailure {
  const text = `${action}: ${error instanceof Error ? error.message : String(error)}`;
  const hint = error instanceof ApiError ? error.hint : null;
  const isUncertain = !(error instanceof ApiError && error.status > 0);
  return { text, hint: hint ?? MESSAGE_KEPT, isUncertain };
}

/** Sends a message to a thread. Returns null if the server has accepted it, otherwise the failure. */
export async function sendMessage(thread: string, text: string): Promise<RequestFailure | null> {
  try {
    const { run_id: run } = await api.run(thread, text);
    return await runFailure(thread, run);
  } catch (error) {
    return toFailure("The message was not sent", error);
  }
}

/** A run that could not start ends at once, possibly before its message is in the journal. */
async function runFailure(thread: string, run: string): Promise<RequestFailure | null> {
  // The message was accepted. Losing the connection now does not change that.
  const status = await api.getRun(thread, run).then(
    (record) => record.status,
    () => null,
  );
  if (status !== "error") return null;
  const { entries } = await api.history(thread, { limit: NEWEST_ENTRIES });
  if (entries.some((entry) => entry.run_id === run && entry.type === "human")) return null;
  const { events } = await api.runEvents(thread, run);
  const failure = events.find(({ event_type }) => event_type === "run_failed")?.content;
  const reason = typeof failure?.message === "string" ? failure.message : "the run could not start";
  const hint = typeof failure?.hint === "string" ? failure.hint : MESSAGE_KEPT;
  return { text: `The message was not answered: ${reason}`, hint, isUncertain: false };
}
