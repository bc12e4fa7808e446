import { describe, expect, test } from "vitest";
import type { HandoffReview, PendingHandoff, Proposal, SummaryItem } from "../api/types";
import {
  lineRefs,
  acceptedProposal,
  canCoverNewer,
  compareReviews,
  groupItems,
  itemLines,
  splitLine,
  earlierDuplicate,
  uncoveredText,
} from "./review";

const item = (kind: SummaryItem["kind"], text: string): SummaryItem => ({
  kind,
  text,
  refs: [],
  verified: true,
});

/** Returns a review with only the fields that the tested functions read. */
function review(
  outcome: string,
  pending: { interrupt: string; uncovered?: number } | null,
  more: object = {},
): HandoffReview {
  const pendingHandoff = pending && {
    interrupt: { id: pending.interrupt },
    uncovered_messages: pending.uncovered ?? 0,
  };
  return {
    handoff: { outcome, accepted_sha256: null, ...more },
    proposals: [],
    pending: pendingHandoff as PendingHandoff | null,
  } as unknown as HandoffReview;
}

test("items are grouped by kind in the order of the contract", () => {
  const body = [item("artifact", "a"), item("decision", "b"), item("objective", "c"), item("decision", "d")];
  const texts = groupItems(body).map(({ heading, items }) => [heading, ...items.map(({ text }) => text)]);
  expect(texts).toEqual([
    ["Objective", "c"],
    ["Decisions", "b", "d"],
    ["Artifacts", "a"],
  ]);
});

describe("pieces", () => {
  const render = (line: string, unfound: string[] = []) =>
    splitLine(line, unfound).map(
      ({ text, code, unfound }) => `${code ? "c" : ""}${unfound ? "u" : ""}:${text}`,
    );

  test("plain text is one segment", () => expect(render("Just words.")).toEqual([":Just words."]));
  test("code spans lose their backticks", () =>
    expect(render("In `src/a.rs`, then")).toEqual([":In ", "c:src/a.rs", ":, then"]));
  test("a single backtick is text", () => expect(render("It`s")).toEqual([":It`s"]));
  test("unverified identifiers are segments, in code and in text", () =>
    expect(render("Run `ci/x.sh --all` for 90 s, 90 s", ["90 s", "ci/x.sh"])).toEqual([
      ":Run ",
      "cu:ci/x.sh",
      "c: --all",
      ": for ",
      "u:90 s",
      ":, ",
      "u:90 s",
    ]));
  test("the text is unchanged", () => {
    for (const unfound of [[""], ["a", "ab", "b"], ["(", "`"], ["abc", "abc"]])
      expect(
        splitLine("abc `ab` (a)", unfound)
          .map(({ text }) => text)
          .join(""),
      ).toBe("abc ab (a)");
  });
});

test("tasks lose their check boxes, empty lines are dropped", () => {
  expect(itemLines("[ ] one\n\n[x] two\nthree")).toEqual([
    { text: "one", task: "open" },
    { text: "two", task: "done" },
    { text: "three", task: null },
  ]);
});

test("g1_the accepted proposal is the newest with the accepted hash", () => {
  const proposals = ["a", "b", "a"].map(
    (summary_sha256, iteration) => ({ summary_sha256, iteration }) as Proposal,
  );
  const accepted = { ...review("accepted", null, { accepted_sha256: "a" }), proposals };
  expect(acceptedProposal(accepted)?.iteration).toBe(2);
  expect(
    acceptedProposal({ ...accepted, handoff: { ...accepted.handoff, accepted_sha256: null } }),
  ).toBeNull();
});

describe("g20_changes by other clients are detected", () => {
  const shown = review("pending", { interrupt: "1" });
  const cases: [string, HandoffReview, ReturnType<typeof compareReviews>][] = [
    ["nothing happened", review("pending", { interrupt: "1" }), "none"],
    ["a message came", review("pending", { interrupt: "1", uncovered: 1 }), "count"],
    ["another draft waits", review("pending", { interrupt: "2" }), "newer"],
    ["another draft is being made", review("pending", null), "drafting"],
    ["it was accepted", review("accepted", null), "decided"],
    ["it was declined", review("declined", null), "decided"],
  ];
  for (const [name, next, change] of cases)
    test(name, () => expect(compareReviews(shown, next)).toBe(change));

  test("the first draft counts as newer", () => {
    expect(compareReviews(review("pending", null), review("pending", null))).toBe("none");
    expect(compareReviews(review("pending", null), review("pending", { interrupt: "1" }))).toBe("newer");
  });
  test("a decided review does not change", () => {
    expect(compareReviews(review("accepted", null), review("accepted", null))).toBe("none");
  });
});

test("an outdated draft can be drafted again with the newer messages, also at the limit of refinements", () => {
  const newest = { iteration: 2 } as Proposal;
  const pending = (uncovered_messages: number) =>
    ({ uncovered_messages, proposal: newest, allowed_decisions: ["approve"] }) as unknown as PendingHandoff;
  expect(canCoverNewer(pending(3), newest)).toBe(true);
  expect(canCoverNewer(pending(0), newest)).toBe(false);
  expect(canCoverNewer(pending(3), { iteration: 1 } as Proposal)).toBe(false);
  expect(canCoverNewer(null, newest)).toBe(false);
  expect(uncoveredText(1)).toBe("The draft does not cover 1 newer message.");
  expect(uncoveredText(2)).toBe("The draft does not cover 2 newer messages.");
});

test("a reverted draft refers to the earlier one", () => {
  const proposals = ["a", "b", "a"].map(
    (summary_sha256, iteration) => ({ summary_sha256, iteration }) as Proposal,
  );
  expect(proposals.map((proposal) => earlierDuplicate(proposal, proposals))).toEqual([null, null, 0]);
});

test("each line of an item has its own references, and the last one those of an unknown line", () => {
  const item = (text: string, refs: number[], line_refs?: number[][]) =>
    ({ kind: "decision", text, refs, verified: true, ...(line_refs && { line_refs }) }) as SummaryItem;
  expect(lineRefs(item("a\nb", [154, 226], [[226], [154]]))).toEqual([[226], [154]]);
  expect(lineRefs(item("a\n\nb", [1, 2, 3], [[2], [9]]))).toEqual([[2], [1, 3]]);
  expect(lineRefs(item("a\nb", [1, 2]))).toEqual([[], [1, 2]]);
  expect(lineRefs(item("a\nb\nc", [1], [[1], []]))).toEqual([[], [], [1]]);
  expect(lineRefs(item("", []))).toEqual([]);
});
