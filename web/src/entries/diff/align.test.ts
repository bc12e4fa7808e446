// That the shortest way from one row to another is found, as another program finds it.
import { diffArrays } from "diff";
import { expect, test } from "vitest";
import { align, type Part } from "./align";

const side = (parts: Part[], leaves: Part["is"]) =>
  parts.flatMap(({ is, value }) => (is === leaves ? [] : value)).join("");
const edits = (parts: Part[]) =>
  parts.reduce((sum, { is, value }) => sum + (is === "same" ? 0 : value.length), 0);

test("any two rows are put together again, in as few steps as possible", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  const row = () => Array.from({ length: random(14) }, () => "abcd"[random(4)] ?? "a");
  for (let round = 0; round < 3_000; round += 1) {
    const [old, now] = [row(), row()];
    const parts = align(old, now);
    expect([side(parts, "added"), side(parts, "removed")]).toEqual([old.join(""), now.join("")]);
    const other = diffArrays(old, now).filter((part) => part.added || part.removed);
    expect(edits(parts)).toBe(other.reduce((sum, part) => sum + part.value.length, 0));
  }
});

test("rows that have nothing in common are given up soon", () => {
  const row = (word: string) => Array.from({ length: 5_000 }, (_, at) => `${word}${at}`);
  expect(align(row("a"), row("b")).map(({ is, value }) => [is, value.length])).toEqual([
    ["removed", 5_000],
    ["added", 5_000],
  ]);
  expect(align([], [])).toEqual([]);
});
