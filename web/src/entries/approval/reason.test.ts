// What is told of an answer that came too late or did not fit.
import { expect, test } from "vitest";
import { reason, type Told } from "./reason";

test.each<[Told[], string | null]>([
  [
    [{ event_type: "run_started", content: { how: "ended at once" } }],
    "This was answered already, by somebody else.",
  ],
  [[{ event_type: "run_failed", content: { message: "a rule forbids it" } }], "a rule forbids it"],
  [[{ event_type: "run_failed", content: {} }], "The answer was not taken."],
  [
    [
      { event_type: "run_started", content: { how: "resumed" } },
      { event_type: "tool_call_decided", content: {} },
    ],
    null,
  ],
  // The answer counted, and what came after it failed.
  [
    [
      { event_type: "tool_call_decided", content: {} },
      { event_type: "run_failed", content: { message: "x" } },
    ],
    null,
  ],
])("%j", (events, expected) => expect(reason(events)).toBe(expected));
