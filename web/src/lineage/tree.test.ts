import { describe, expect, test } from "vitest";
import type { Relative } from "../api/types";
import { FOLD_ABOVE, KEEP, layOut, lines, type Row } from "./tree";

/** `c<p` is a thread c that came from p by handoff, `c~p` by fork, `c` the first of a family. */
function family(text: string): Relative[] {
  return text
    .trim()
    .split(/\s+/)
    .map((word) => {
      const [, id = "", how, parent = null] = /^(\w+)(?:([<~])(\w+))?$/.exec(word) ?? [];
      return {
        thread_id: id,
        parent_id: parent,
        parent_kind: how === "<" ? "handoff" : how === "~" ? "fork" : null,
        handoff_id: null,
        depth: 0,
        name: id,
        first_prompt: null,
        state: "idle",
        message_count: 1,
        created_at: "2026-01-01T00:00:00Z",
        updated_at: "2026-01-01T00:00:00Z",
      };
    });
}

/** The picture in words: `··name` is in the second column, `[3]` three folded threads. */
function drawn(rows: Row[]): string[] {
  return rows.map((row) => "··".repeat(row.column) + (row.isFolded ? `[${row.threads.length}]` : row.key));
}

const chain = (length: number) =>
  Array.from({ length }, (_, at) => (at === 0 ? "t0" : `t${at}<t${at - 1}`)).join(" ");

describe("layOut", () => {
  test("a thread alone is one row", () => {
    expect(drawn(layOut(family("a"), "a"))).toEqual(["a"]);
  });

  test("a short chain is one column, nothing of it folded", () => {
    const rows = layOut(family(chain(FOLD_ABOVE)), "t0");
    expect(rows).toHaveLength(FOLD_ABOVE);
    expect(new Set(rows.map((row) => row.column))).toEqual(new Set([0]));
  });

  test("a chain of 50 shows its ends, the current thread with its neighbours, and can be opened", () => {
    const threads = family(chain(50));
    const rows = layOut(threads, "t25");
    expect(drawn(rows)).toEqual([
      ...["t0", "t1", "t2", "[20]", "t23", "t24", "t25", "t26", "t27"],
      ...["[19]", "t47", "t48", "t49"],
    ]);
    expect(rows.every((row) => row.column === 0)).toBe(true);
    const opened = layOut(threads, "t25", new Set(["t3", "t28"]));
    expect(opened).toHaveLength(50);
    expect(opened.every((row, at) => row.parent === (at === 0 ? null : at - 1))).toBe(true);
  });

  test("the current thread is never folded, wherever in the chain it is", () => {
    const threads = family(chain(50));
    for (const { thread_id } of threads) {
      const rows = layOut(threads, thread_id);
      expect(rows.filter((row) => !row.isFolded).map((row) => row.key)).toContain(thread_id);
      expect(rows.flatMap((row) => row.threads)).toHaveLength(50);
      expect(rows.length).toBeLessThanOrEqual(4 * KEEP + 2);
    }
  });

  test("a hub of 13 has one column for its twelve children", () => {
    const hub = ["hub", ...Array.from({ length: 12 }, (_, at) => `c${at}<hub`)].join(" ");
    const rows = layOut(family(hub), "hub");
    expect(drawn(rows)).toEqual(["hub", ...Array.from({ length: 12 }, (_, at) => `··c${at}`)]);
    expect(rows.slice(1).map((row) => [row.at, row.of])).toEqual(
      Array.from({ length: 12 }, (_, at) => [at + 1, 12]),
    );
  });

  test("the child that most came from goes on straight, below those that branch off", () => {
    expect(drawn(layOut(family("a b<a c~a d<b e<d"), "a"))).toEqual(["a", "··c", "b", "d", "e"]);
  });

  test("a complete binary tree of 255 threads has eight columns at most", () => {
    const tree = Array.from({ length: 255 }, (_, at) =>
      at === 0 ? "t0" : `t${at}<t${Math.floor((at - 1) / 2)}`,
    );
    const rows = layOut(family(tree.join(" ")), "t0");
    expect(rows).toHaveLength(255);
    expect(Math.max(...rows.map((row) => row.column))).toBeLessThan(8);
  });

  test("threads without a known parent, named twice or in a circle each have one row", () => {
    expect(drawn(layOut(family("a<z b<a b<a x<y y<x"), "a"))).toEqual(["a", "b", "x", "y"]);
  });

  test("every thread is below the one it came from", () => {
    const rows = layOut(family("a b<a c~a d<b e<d f~c g~c h<f"), "a");
    rows.forEach((row, at) => {
      expect(row.parent ?? -1).toBeLessThan(at);
      if (row.parent !== null) expect(rows[row.parent]?.key).toBe(row.threads[0]?.parent_id);
    });
  });
});

describe("lines", () => {
  const measures = { row: 10, column: 4, left: 2 };

  test("a chain is straight lines, each of the kind its thread came by", () => {
    expect(lines(layOut(family("a b<a c~b"), "a"), measures)).toEqual([
      { key: "b", kind: "handoff", d: "M2 5V15" },
      { key: "c", kind: "fork", d: "M2 15V25" },
    ]);
  });

  test("those that branch off share a trunk, and forks draw nothing of it twice", () => {
    expect(lines(layOut(family("a b~a c~a"), "a"), measures)).toEqual([
      { key: "b-trunk", kind: "trunk", d: "M2 5V11" },
      { key: "b", kind: "fork", d: "M2 11Q2 15 6 15" },
      { key: "c-trunk", kind: "trunk", d: "M2 11V21" },
      { key: "c", kind: "fork", d: "M2 21Q2 25 6 25" },
    ]);
  });

  test("a handoff is drawn as one the whole way, over the trunk of the forks before it", () => {
    const straight = lines(layOut(family("a b~a c<a d<c"), "a"), measures);
    expect(straight.find(({ key }) => key === "c")).toEqual({ key: "c", kind: "handoff", d: "M2 5V25" });
    const aside = lines(layOut(family("a b~a c<a"), "a"), measures);
    expect(aside.at(-1)).toEqual({ key: "c", kind: "handoff", d: "M2 5V21Q2 25 6 25" });
  });
});
