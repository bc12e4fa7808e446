// Sending a message: it counts as sent once the server has it in the thread or in its queue. Otherwise the caller keeps the text
// and shows the problem.
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";

/** Why something was not done, and what can be done about it. */
export interface Problem {
  text: string;
  hint: string | null;
  /** Whether the server may have done it all the same, because no answer came. */
  isUncertain: boolean;
}

const STILL_HERE = "The message is still here. Send it again once that is resolved.";
/** Newest entries among which a message that was just sent is looked for. */
const NEWEST_ENTRIES = 20;

/** Returns an error as a person reads it. */
export function problemOf(what: string, error: unknown): Problem {
  const text = `${what}: ${error instanceof Error ? error.message : String(error)}`;
  const hint = error instanceof ApiError ? error.hint : null;
  const isUncertain = !(error instanceof ApiError && error.status > 0);
  return { text, hint: hint ?? STILL_HERE, isUncertain };
}

/** Sends a message to a thread. Returns null when the server has it, otherwise why it does not. */
export async function sendMessage(thread: string, text: string): Promise<Problem | null> {
  try {
    const { run_id: run } = await api.run(thread, text);
    return await problemOfRun(thread, run);
  } catch (error) {
    return problemOf("The message was not sent", error);
  }
}

/** A run that could not begin ends at once, and the journal may not have its message then. */
async function problemOfRun(thread: string, run: string): Promise<Problem | null> {
  // The message was accepted. A connection that is lost now does not change that.
  const status = await api.runOf(thread, run).then(
    (found) => found.status,
    () => null,
  );
  if (status !== "error") return null;
  const { entries } = await api.history(thread, { limit: NEWEST_ENTRIES });
  if (entries.some((entry) => entry.run_id === run && entry.type === "human")) return null;
  const { events } = await api.runEvents(thread, run);
  const failed = events.find(({ event_type }) => event_type === "run_failed")?.content;
  const reason = typeof failed?.message === "string" ? failed.message : "the run failed before it began";
  const hint = typeof failed?.hint === "string" ? failed.hint : STILL_HERE;
  return { text: `The message was not answered: ${reason}`, hint, isUncertain: false };
}
