// The reasons that are shown for answers that came too late or were invalid.
import { expect, test } from "vitest";
import { refusalReason, type RunEvent } from "./reason";

test.each<[RunEvent[], string | null]>([
  [
    [{ event_type: "run_started", content: { how: "ended at once" } }],
    "This was already answered by another client.",
  ],
  [[{ event_type: "run_failed", content: { message: "a rule forbids it" } }], "a rule forbids it"],
  [[{ event_type: "run_failed", content: {} }], "The answer was not accepted."],
  [
    [
      { event_type: "run_started", content: { how: "resumed" } },
      { event_type: "tool_call_decided", content: {} },
    ],
    null,
  ],
  // The answer was accepted, and a later step failed.
  [
    [
      { event_type: "tool_call_decided", content: {} },
      { event_type: "run_failed", content: { message: "x" } },
    ],
    null,
  ],
])("%j", (events, expected) => expect(refusalReason(events)).toBe(expected));
