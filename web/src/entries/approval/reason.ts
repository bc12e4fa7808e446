// Reads the outcome of an answer from the events of the resumed run. Pure.
import type { JournalEvent } from "../../api/types";

export type RunEvent = Pick<JournalEvent, "event_type" | "content">;

/** Returns why the answer was refused, from the events of a finished run; null if it was accepted. */
export function refusalReason(events: readonly RunEvent[]): string | null {
  const contentOf = (type: string) => events.find(({ event_type }) => event_type === type)?.content;
  const failed = contentOf("run_failed");
  const isDecided = events.some(({ event_type }) => event_type === "tool_call_decided");
  if (failed && !isDecided)
    return typeof failed.message === "string" ? failed.message : "The answer was not accepted.";
  // If no question was pending, the run ends at once.
  return contentOf("run_started")?.how === "ended at once"
    ? "This was already answered by another client."
    : null;
}
