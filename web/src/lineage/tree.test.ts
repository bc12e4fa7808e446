import { describe, expect, test } from "vitest";
import type { LineageThread } from "../api/types";
import { FOLD_ABOVE, KEPT_THREADS, layOutRows, treeEdges, type TreeRow } from "./tree";

/** Parses a lineage: `c<p` is a child of p by handoff, `c~p` by fork, and `c` a root. */
function family(text: string): LineageThread[] {
  return text
    .trim()
    .split(/\s+/)
    .map((word) => {
      const [, id = "", relation, parent = null] = /^(\w+)(?:([<~])(\w+))?$/.exec(word) ?? [];
      return {
        thread_id: id,
        parent_id: parent,
        parent_kind: relation === "<" ? "handoff" : relation === "~" ? "fork" : null,
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

/** Renders rows: `··name` is in the second column, and `[3]` stands for three folded threads. */
function render(rows: TreeRow[]): string[] {
  return rows.map((row) => "··".repeat(row.column) + (row.isFolded ? `[${row.threads.length}]` : row.key));
}

const chainText = (length: number) =>
  Array.from({ length }, (_, at) => (at === 0 ? "t0" : `t${at}<t${at - 1}`)).join(" ");

describe("layOut", () => {
  test("a thread alone is one row", () => {
    expect(render(layOutRows(family("a"), "a"))).toEqual(["a"]);
  });

  test("a short chain is one column without folds", () => {
    const rows = layOutRows(family(chainText(FOLD_ABOVE)), "t0");
    expect(rows).toHaveLength(FOLD_ABOVE);
    expect(new Set(rows.map((row) => row.column))).toEqual(new Set([0]));
  });

  test("a chain of 50 shows its ends and the current thread, and can be expanded", () => {
    const threads = family(chainText(50));
    const rows = layOutRows(threads, "t25");
    expect(render(rows)).toEqual([
      ...["t0", "t1", "t2", "[20]", "t23", "t24", "t25", "t26", "t27"],
      ...["[19]", "t47", "t48", "t49"],
    ]);
    expect(rows.every((row) => row.column === 0)).toBe(true);
    const opened = layOutRows(threads, "t25", new Set(["t3", "t28"]));
    expect(opened).toHaveLength(50);
    expect(opened.every((row, at) => row.parent === (at === 0 ? null : at - 1))).toBe(true);
  });

  test("the current thread is never folded", () => {
    const threads = family(chainText(50));
    for (const { thread_id } of threads) {
      const rows = layOutRows(threads, thread_id);
      expect(rows.filter((row) => !row.isFolded).map((row) => row.key)).toContain(thread_id);
      expect(rows.flatMap((row) => row.threads)).toHaveLength(50);
      expect(rows.length).toBeLessThanOrEqual(4 * KEPT_THREADS + 2);
    }
  });

  test("a hub of 13 has one column for its twelve children", () => {
    const hub = ["hub", ...Array.from({ length: 12 }, (_, at) => `c${at}<hub`)].join(" ");
    const rows = layOutRows(family(hub), "hub");
    expect(render(rows)).toEqual(["hub", ...Array.from({ length: 12 }, (_, at) => `··c${at}`)]);
    expect(rows.slice(1).map((row) => [row.posInSet, row.setSize])).toEqual(
      Array.from({ length: 12 }, (_, at) => [at + 1, 12]),
    );
  });

  test("the child with the largest subtree continues the column, below the others", () => {
    expect(render(layOutRows(family("a b<a c~a d<b e<d"), "a"))).toEqual(["a", "··c", "b", "d", "e"]);
  });

  test("a complete binary tree of 255 threads has eight columns at most", () => {
    const tree = Array.from({ length: 255 }, (_, at) =>
      at === 0 ? "t0" : `t${at}<t${Math.floor((at - 1) / 2)}`,
    );
    const rows = layOutRows(family(tree.join(" ")), "t0");
    expect(rows).toHaveLength(255);
    expect(Math.max(...rows.map((row) => row.column))).toBeLessThan(8);
  });

  test("orphans, duplicates and cycles have one row per thread", () => {
    expect(render(layOutRows(family("a<z b<a b<a x<y y<x"), "a"))).toEqual(["a", "b", "x", "y"]);
  });

  test("every thread is below its parent", () => {
    const rows = layOutRows(family("a b<a c~a d<b e<d f~c g~c h<f"), "a");
    rows.forEach((row, at) => {
      expect(row.parent ?? -1).toBeLessThan(at);
      if (row.parent !== null) expect(rows[row.parent]?.key).toBe(row.threads[0]?.parent_id);
    });
  });
});

describe("lines", () => {
  const measures = { row: 10, column: 4, left: 2 };

  test("a chain is straight lines of the kind of each relation", () => {
    expect(treeEdges(layOutRows(family("a b<a c~b"), "a"), measures)).toEqual([
      { key: "b", kind: "handoff", d: "M2 5V15" },
      { key: "c", kind: "fork", d: "M2 15V25" },
    ]);
  });

  test("branching children share a trunk, drawn once", () => {
    expect(treeEdges(layOutRows(family("a b~a c~a"), "a"), measures)).toEqual([
      { key: "b-trunk", kind: "trunk", d: "M2 5V11" },
      { key: "b", kind: "fork", d: "M2 11Q2 15 6 15" },
      { key: "c-trunk", kind: "trunk", d: "M2 11V21" },
      { key: "c", kind: "fork", d: "M2 21Q2 25 6 25" },
    ]);
  });

  test("a handoff is drawn in full, over the trunk of the forks before it", () => {
    const straight = treeEdges(layOutRows(family("a b~a c<a d<c"), "a"), measures);
    expect(straight.find(({ key }) => key === "c")).toEqual({ key: "c", kind: "handoff", d: "M2 5V25" });
    const aside = treeEdges(layOutRows(family("a b~a c<a"), "a"), measures);
    expect(aside.at(-1)).toEqual({ key: "c", kind: "handoff", d: "M2 5V21Q2 25 6 25" });
  });
});
