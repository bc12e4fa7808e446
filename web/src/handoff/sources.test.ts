import { expect, test } from "vitest";
import type { Proposal, SummaryItem } from "../api/types";
import { adjacentItem, itemsFrom, packageItems } from "./sources";

const item = (kind: SummaryItem["kind"], refs: number[]): SummaryItem => ({
  kind,
  text: "Words.",
  refs,
  verified: true,
});

/** Returns a proposal with only the fields that the tested functions read. */
function proposal(body: SummaryItem[], rules: number[][] = [], markdown = ""): Proposal {
  const carried = { rules: rules.map((refs) => ({ text: "Never.", refs })) };
  return { summary_json: { body, carried }, package_md: markdown } as Proposal;
}

const RULES =
  "**Title**\n\n### Objective\n- Mend it.\n\n### Rules\n- Never.\n- Ever.\n\n### Files read\n- a.rs";

test("items are in the order of the page, and those without sources are left out", () => {
  const body = [item("decision", [7]), item("objective", [2]), item("progress", [])];
  expect(packageItems(proposal(body, [[3], [4, 5]], RULES))).toEqual([
    { key: "item-1", refs: [2] },
    { key: "item-0", refs: [7] },
    { key: "fact-Rules-0", refs: [3] },
    { key: "fact-Rules-1", refs: [4, 5] },
  ]);
});
test("rules have no sources if the text has another number of them", () => {
  expect(packageItems(proposal([], [[3]], RULES))).toEqual([]);
});

const items = [
  { key: "a", refs: [2, 9] },
  { key: "b", refs: [4] },
  { key: "c", refs: [9] },
];
test("a message leads to all items that name it", () => {
  const keysFrom = (...seqs: number[]) => itemsFrom(items, seqs).map(({ key }) => key);
  expect(keysFrom(9)).toEqual(["a", "c"]);
  expect(keysFrom(4, 5)).toEqual(["b"]);
  expect(keysFrom(3)).toEqual([]);
});
test("stepping begins at an end and stays at the other one", () => {
  const step = (key: string | null, by: 1 | -1) => adjacentItem(items, key, by)?.key;
  expect([step(null, 1), step(null, -1), step("gone", 1)]).toEqual(["a", "c", "a"]);
  expect([step("a", 1), step("c", 1), step("b", -1), step("a", -1)]).toEqual(["b", "c", "a", "a"]);
  expect(adjacentItem([], null, 1)).toBeNull();
});
