// What the events of a run say about the answer it was to go on with. Pure.
import type { JournalEvent } from "../../api/types";

export type Told = Pick<JournalEvent, "event_type" | "content">;

/** Returns why the answer did not count, from the events of a run that has ended; null when it did. */
export function reason(events: readonly Told[]): string | null {
  const of = (type: string) => events.find(({ event_type }) => event_type === type)?.content;
  const failed = of("run_failed");
  const decided = events.some(({ event_type }) => event_type === "tool_call_decided");
  if (failed && !decided)
    return typeof failed.message === "string" ? failed.message : "The answer was not taken.";
  // Where nothing waited any more, there was nothing to go on with.
  return of("run_started")?.how === "ended at once" ? "This was answered already, by somebody else." : null;
}
