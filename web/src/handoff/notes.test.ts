import { expect, test } from "vitest";
import type { ReviewNotes } from "../api/types";
import { contradictions, factOmission, lostRules, omittedCount, topicText } from "./notes";

test("lost rules keep their indexes, and contradicted ones their lines", () => {
  const rule = (text: string) => ({ text, refs: [2] });
  const notes: ReviewNotes = {
    rules: [
      { rule: rule("Never sleep."), problem: { kind: "contradicted", line: "Add a sleep." } },
      { rule: rule("No mocks."), problem: { kind: "lost" } },
    ],
  };
  expect(lostRules(notes)).toEqual([{ rule: rule("No mocks."), at: 1 }]);
  expect(contradictions(notes)).toEqual([{ rule: rule("Never sleep."), line: "Add a sleep." }]);
  expect([...lostRules({}), ...contradictions({})]).toEqual([]);
});

test("left-out facts say how many there are, or that one is shortened", () => {
  const entries = ["a.rs", "b.rs"];
  expect(factOmission({ section: "Files read", entries, reason: "too_many" })).toBe(
    "Files read: 2 more, which the text only counts.",
  );
  expect(factOmission({ section: "Tasks", entries: ["Ship"], reason: "shortened" })).toBe(
    "Tasks. The text contains only its beginning.",
  );
});

test("the text of a topic is shown before it is added, also for a draft of an earlier version", () => {
  const topic = { first_seq: 2, last_seq: 5, messages: 4, tokens: 90, request: "Look at the sweep." };
  expect(topicText({ ...topic, item_text: "Asked earlier: the sweep" })).toBe("Asked earlier: the sweep");
  expect(topicText({ ...topic, answer: "It is fine." })).toBe(
    "Asked earlier: Look at the sweep.\nAnswered: It is fine.",
  );
  expect(topicText({ ...topic, answer: null })).toBe("Asked earlier: Look at the sweep.");
  expect([omittedCount({}), omittedCount({ topics: [topic] })]).toEqual([0, 1]);
});
