import { expect, test } from "vitest";
import { coverageParts, stripCells, useParts } from "./coverage";
import { falseReferences } from "./notes";

test("the coverage has the server's numbers", () => {
  const coverage = { messages: 243, verbatim: 40, summarized: 201, truncated: 2, excluded: 0, uses: null };
  expect(coverageParts(coverage).map(({ name, count }) => [name, count])).toEqual([
    ["verbatim", 40],
    ["summarized", 201],
    ["truncated", 2],
    ["excluded", 0],
  ]);
});

test("the uses have the server's numbers, the strongest first", () => {
  const uses = { unread: 5, scanned: 4, read: 3, represented: 2, quoted: 1 };
  expect(useParts(uses).map(({ name, count }) => [name, count])).toEqual([
    ["quoted", 1],
    ["represented", 2],
    ["read", 3],
    ["scanned", 4],
    ["unread", 5],
  ]);
});

const uses = (cells: ReturnType<typeof stripCells>) => cells.map(({ use }) => use);

test("a cell of the strip has its strongest use and leads to it", () => {
  const ranges = {
    first_seq: 11,
    last_seq: 20,
    quoted: [[14, 14]] as [number, number][],
    read: [[11, 13]] as [number, number][],
    unread: [[15, 20]] as [number, number][],
  };
  expect(stripCells(ranges, 6, 2)).toEqual([
    { use: "quoted", first: 11, last: 15, target: 14 },
    { use: "unread", first: 16, last: 20, target: 16 },
  ]);
  expect(uses(stripCells(ranges, 6, 100))).toHaveLength(10);
});

test("the cells of the strip are adjacent and cover every position", () => {
  for (const [last_seq, count] of [
    [0, 60],
    [6, 4],
    [99, 60],
    [12_345, 60],
  ] as const) {
    const cells = stripCells({ first_seq: 0, last_seq }, 1, count);
    expect(cells[0]?.first).toBe(0);
    expect(cells.at(-1)?.last).toBe(last_seq);
    cells.slice(1).forEach((cell, at) => expect(cell.first).toBe((cells[at]?.last ?? 0) + 1));
  }
});

test("records of runs are not shown as unread messages", () => {
  const ranges = {
    first_seq: 1,
    last_seq: 4,
    read: [[2, 2]] as [number, number][],
    scanned: [[4, 4]] as [number, number][],
    unread: [
      [1, 1],
      [3, 3],
    ] as [number, number][],
  };
  expect(uses(stripCells(ranges, 0, 4))).toEqual(["read", "read", "read", "scanned"]);
  expect(uses(stripCells(ranges, 1, 4))).toEqual(["unread", "read", "unread", "scanned"]);
});

test("each removed reference has a sentence", () => {
  expect(falseReferences()).toEqual([]);
  expect(falseReferences([9])).toEqual(["Reference #9 was removed: there is no such message."]);
});
