import { describe, expect, it } from "vitest";
import type { ThreadRow } from "../api/types";
import { gaps, hole, indexOf, put, slotOf, type Slots } from "./slots";

const row = (id: string) => ({ thread_id: id }) as ThreadRow;
const page = (ids: string, total: number) => ({ threads: [...ids].map(row), total });
const shown = (slots: Slots) => slots.map((slot) => slot?.thread_id ?? "·").join("");
const known = (text: string): Slots => [...text].map((id) => (id === "·" ? undefined : row(id)));

describe("pages are put at their positions", () => {
  const cases: [string, string, number, number, number, string][] = [
    // what is known, the page, its offset, the limit, the total, what is known then
    ["", "abc", 0, 3, 6, "abc···"],
    ["abc···", "def", 3, 3, 6, "abcdef"],
    ["abcdef", "", 0, 3, 0, ""],
    ["", "", 3, 3, 6, "···"],
    // A thread moved to the top: where it was is a hole until somebody looks. What was pushed on is known anew then, too.
    ["abcdef", "eab", 0, 3, 6, "eabd·f"],
    ["abcdef", "ab", 0, 2, 6, "abcdef"],
    // A new one at the top.
    ["abcdef", "xab", 0, 3, 7, "xabdef·"],
    // One was deleted.
    ["abcdef", "bcd", 0, 3, 5, "bcd·e"],
    // Fewer than asked for: the end, whatever was counted.
    ["abcdef", "a", 0, 3, 6, "a"],
    ["", "abcd", 0, 4, 2, "abcd"],
  ];
  it.each(cases)("%s and %s at %i", (before, ids, offset, limit, total, after) => {
    expect(shown(put(known(before), page(ids, total), offset, limit))).toBe(after);
  });

  it("no thread is in the list twice, whatever came in which order", () => {
    let seed = 7;
    const random = (below: number) => (seed = (seed * 48_271) % 2_147_483_647) % below;
    const server = Array.from({ length: 40 }, (_, at) => String.fromCharCode(0x4e00 + at));
    let slots: Slots = [];
    for (let step = 0; step < 3_000; step += 1) {
      const [moved] = server.splice(random(server.length), 1);
      if (moved && random(5) > 0) server.unshift(moved);
      else server.unshift(String.fromCharCode(0x5000 + step));
      const [offset, limit] = [random(40), 1 + random(12)];
      const threads = server.slice(offset, offset + limit).map(row);
      slots = put(slots, { threads, total: server.length }, offset, limit);
      const ids = slots.flatMap((slot) => slot?.thread_id ?? []);
      expect(new Set(ids).size).toBe(ids.length);
      expect(slots.length).toBeLessThanOrEqual(server.length);
    }
  });
});

it("what is hidden leaves no place in what is shown", () => {
  const slots = known("ab·def");
  const without = gaps(slots, new Set(["a", "e", "z"]));
  expect(without).toEqual([0, 4]);
  const total = slots.length - without.length;
  const order = Array.from({ length: total }, (_, at) => slots[slotOf(at, without)]?.thread_id ?? "·");
  expect(order.join("")).toBe("b·df");
  expect([..."abdef"].map((id) => indexOf(slots, id, without))).toEqual([-1, 0, 2, -1, 3]);
});

it("the first hole in a range is found, and none beyond the end", () => {
  expect(hole(known("ab·d··"), -5, 99)).toBe(2);
  expect(hole(known("ab·d··"), 3, 5)).toBe(4);
  expect(hole(known("abc"), 0, 99)).toBe(-1);
});
