import { expect, test } from "vitest";
import type { ContinuityProbe, ContinuityReport } from "../api/types";
import { continuityCount, isAbout, probeAnswer, probeName } from "./continuity";

const probe = (fields: Partial<ContinuityProbe>): ContinuityProbe => ({
  kind: "rule",
  question: "Which rules?",
  expected: "Never sleep.",
  seq: 4,
  answer: null,
  passed: false,
  judged_by: "rules",
  ...fields,
});

test("a failed question says what was answered", () => {
  expect(probeAnswer(probe({}))).toBe("The text does not say.");
  expect(probeAnswer(probe({ answer: "Sleep." }))).toBe("Closest: Sleep.");
  expect(probeAnswer(probe({ answer: "Sleep.", judged_by: "model" }))).toBe("The answer was: Sleep.");
});

test("every subject has a name, and a later one is shown as it is", () => {
  expect(["last_request", "open_task", "rule", "file", "decision", "later"].map(probeName)).toEqual([
    "Last request",
    "Open task",
    "Rule",
    "File in use",
    "Decision",
    "later",
  ]);
});

test("a report about another text is not shown", () => {
  const report = { summary_sha256: "a" } as ContinuityReport;
  expect([isAbout(report, "a"), isAbout(report, "b")]).toEqual([true, false]);
});

test("the count names the rehearsal, so that it is no mark for the whole text", () => {
  const probes = [probe({}), probe({ passed: true })];
  expect(continuityCount({ passed: 1, probes })).toBe("Rehearsal: the text answers 1 of 2 questions");
  expect(continuityCount({ passed: 0, probes: [probe({})] })).toBe(
    "Rehearsal: the text answers 0 of 1 question",
  );
});
