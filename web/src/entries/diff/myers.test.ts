// The edit script must be as short as that of another implementation.
import { diffArrays } from "diff";
import { expect, test } from "vitest";
import { diffSequences, type DiffSegment } from "./myers";

const joinSide = (parts: DiffSegment[], omitted: DiffSegment["op"]) =>
  parts.flatMap(({ op, value }) => (op === omitted ? [] : value)).join("");
const editCount = (parts: DiffSegment[]) =>
  parts.reduce((sum, { op, value }) => sum + (op === "same" ? 0 : value.length), 0);

test("the edit script is correct and minimal", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  const randomRow = () => Array.from({ length: random(14) }, () => "abcd"[random(4)] ?? "a");
  for (let round = 0; round < 3_000; round += 1) {
    const [old, now] = [randomRow(), randomRow()];
    const parts = diffSequences(old, now);
    expect([joinSide(parts, "added"), joinSide(parts, "removed")]).toEqual([old.join(""), now.join("")]);
    const other = diffArrays(old, now).filter((part) => part.added || part.removed);
    expect(editCount(parts)).toBe(other.reduce((sum, part) => sum + part.value.length, 0));
  }
});

test("unrelated sequences are given up early", () => {
  const row = (word: string) => Array.from({ length: 5_000 }, (_, at) => `${word}${at}`);
  expect(diffSequences(row("a"), row("b")).map(({ op, value }) => [op, value.length])).toEqual([
    ["removed", 5_000],
    ["added", 5_000],
  ]);
  expect(diffSequences([], [])).toEqual([]);
});
