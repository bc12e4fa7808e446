import { describe, expect, test } from "vitest";
import type { HandoffReview, PendingHandoff, Proposal, SummaryItem } from "../api/types";
import { acceptedOf, changed, grouped, linesOf, pieces, reached, sameAs } from "./review";

const item = (kind: SummaryItem["kind"], text: string): SummaryItem => ({
  kind,
  text,
  refs: [],
  verified: true,
});

/** A review in the state of interest; what the functions do not look at is not there. */
function review(
  outcome: string,
  pending: { interrupt: string; uncovered?: number } | null,
  more: object = {},
): HandoffReview {
  const waits = pending && {
    interrupt: { id: pending.interrupt },
    uncovered_messages: pending.uncovered ?? 0,
  };
  return {
    handoff: { outcome, accepted_sha256: null, ...more },
    proposals: [],
    pending: waits as PendingHandoff | null,
  } as unknown as HandoffReview;
}

test("items stand under the headings of their kinds, in the order of the contract, as they stood", () => {
  const body = [item("artifact", "a"), item("decision", "b"), item("objective", "c"), item("decision", "d")];
  const texts = grouped(body).map(({ heading, items }) => [heading, ...items.map(({ text }) => text)]);
  expect(texts).toEqual([
    ["Objective", "c"],
    ["Decisions", "b", "d"],
    ["Artifacts", "a"],
  ]);
});

test("the parts of a coverage are the ledger's numbers", () => {
  const coverage = { messages: 243, verbatim: 40, summarized: 201, truncated: 2, excluded: 0 };
  expect(reached(coverage).map(({ name, count }) => [name, count])).toEqual([
    ["verbatim", 40],
    ["summarized", 201],
    ["truncated", 2],
    ["excluded", 0],
  ]);
});

describe("pieces", () => {
  const drawn = (line: string, unfound: string[] = []) =>
    pieces(line, unfound).map(({ text, code, unfound }) => `${code ? "c" : ""}${unfound ? "u" : ""}:${text}`);

  test("plain text is one piece", () => expect(drawn("Just words.")).toEqual([":Just words."]));
  test("code spans lose their marks", () =>
    expect(drawn("In `src/a.rs`, then")).toEqual([":In ", "c:src/a.rs", ":, then"]));
  test("a single mark stays what it is", () => expect(drawn("It`s")).toEqual([":It`s"]));
  test("what was not found stands out, in code and outside of it", () =>
    expect(drawn("Run `ci/x.sh --all` for 90 s, 90 s", ["90 s", "ci/x.sh"])).toEqual([
      ":Run ",
      "cu:ci/x.sh",
      "c: --all",
      ": for ",
      "u:90 s",
      ":, ",
      "u:90 s",
    ]));
  test("no letter is lost, whatever was not found", () => {
    for (const unfound of [[""], ["a", "ab", "b"], ["(", "`"], ["abc", "abc"]])
      expect(
        pieces("abc `ab` (a)", unfound)
          .map(({ text }) => text)
          .join(""),
      ).toBe("abc ab (a)");
  });
});

test("tasks lose their boxes, empty lines are left out", () => {
  expect(linesOf("[ ] one\n\n[x] two\nthree")).toEqual([
    { text: "one", task: "open" },
    { text: "two", task: "done" },
    { text: "three", task: null },
  ]);
});

test("g1_the accepted proposal is the one with the accepted hash, the newest of them", () => {
  const proposals = ["a", "b", "a"].map(
    (summary_sha256, iteration) => ({ summary_sha256, iteration }) as Proposal,
  );
  const accepted = { ...review("accepted", null, { accepted_sha256: "a" }), proposals };
  expect(acceptedOf(accepted)?.iteration).toBe(2);
  expect(acceptedOf({ ...accepted, handoff: { ...accepted.handoff, accepted_sha256: null } })).toBeNull();
});

describe("g20_what others do meanwhile is noticed", () => {
  const shown = review("pending", { interrupt: "1" });
  const cases: [string, HandoffReview, ReturnType<typeof changed>][] = [
    ["nothing happened", review("pending", { interrupt: "1" }), "none"],
    ["a message came", review("pending", { interrupt: "1", uncovered: 1 }), "count"],
    ["another draft waits", review("pending", { interrupt: "2" }), "newer"],
    ["another draft is being made", review("pending", null), "drafting"],
    ["it was accepted", review("accepted", null), "decided"],
    ["it was declined", review("declined", null), "decided"],
  ];
  for (const [name, now, change] of cases) test(name, () => expect(changed(shown, now)).toBe(change));

  test("the first draft takes the place of none", () => {
    expect(changed(review("pending", null), review("pending", null))).toBe("none");
    expect(changed(review("pending", null), review("pending", { interrupt: "1" }))).toBe("newer");
  });
  test("what is decided stays", () => {
    expect(changed(review("accepted", null), review("accepted", null))).toBe("none");
  });
});

test("a draft that has the text of an earlier one says of which", () => {
  const proposals = ["a", "b", "a"].map(
    (summary_sha256, iteration) => ({ summary_sha256, iteration }) as Proposal,
  );
  expect(proposals.map((proposal) => sameAs(proposal, proposals))).toEqual([null, null, 0]);
});
