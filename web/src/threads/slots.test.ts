import { describe, expect, it } from "vitest";
import type { ThreadRow } from "../api/types";
import { hiddenPositions, firstHole, visibleIndexOf, insertPage, slotOf, type Slots } from "./slots";

const row = (id: string) => ({ thread_id: id }) as ThreadRow;
const page = (ids: string, total: number) => ({ threads: [...ids].map(row), total, is_total_exact: true });
const render = (slots: Slots) => slots.map((slot) => slot?.thread_id ?? "·").join("");
const parseSlots = (text: string): Slots => [...text].map((id) => (id === "·" ? undefined : row(id)));

describe("pages are inserted at their positions", () => {
  const cases: [string, string, number, number, number, string][] = [
    // Known rows, the page, its offset, the limit, the total, and the expected rows.
    ["", "abc", 0, 3, 6, "abc···"],
    ["abc···", "def", 3, 3, 6, "abcdef"],
    ["abcdef", "", 0, 3, 0, ""],
    ["", "", 3, 3, 6, "···"],
    // A thread moved to the top leaves a hole. The rows it pushed down are loaded again, too.
    ["abcdef", "eab", 0, 3, 6, "eabd·f"],
    ["abcdef", "ab", 0, 2, 6, "abcdef"],
    // A new thread at the top.
    ["abcdef", "xab", 0, 3, 7, "xabdef·"],
    // A deleted thread.
    ["abcdef", "bcd", 0, 3, 5, "bcd·e"],
    // A short page is the end of the list, whatever the total says.
    ["abcdef", "a", 0, 3, 6, "a"],
    ["", "abcd", 0, 4, 2, "abcd"],
  ];
  it.each(cases)("%s and %s at %i", (before, ids, offset, limit, total, after) => {
    expect(render(insertPage(parseSlots(before), page(ids, total), offset, limit))).toBe(after);
  });

  it("a total at which the server stopped counting does not shorten the list", () => {
    const counted = { ...page("abc", 4), is_total_exact: false };
    expect(render(insertPage(parseSlots("abcdef"), counted, 0, 3))).toBe("abcdef");
    expect(render(insertPage([], counted, 0, 3))).toBe("abc·");
  });

  it("no thread is listed twice, in any order of pages", () => {
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
      slots = insertPage(slots, { threads, total: server.length, is_total_exact: true }, offset, limit);
      const ids = slots.flatMap((slot) => slot?.thread_id ?? []);
      expect(new Set(ids).size).toBe(ids.length);
      expect(slots.length).toBeLessThanOrEqual(server.length);
    }
  });
});

it("hidden rows leave no gap", () => {
  const slots = parseSlots("ab·def");
  const hidden = hiddenPositions(slots, new Set(["a", "e", "z"]));
  expect(hidden).toEqual([0, 4]);
  const total = slots.length - hidden.length;
  const order = Array.from({ length: total }, (_, at) => slots[slotOf(at, hidden)]?.thread_id ?? "·");
  expect(order.join("")).toBe("b·df");
  expect([..."abdef"].map((id) => visibleIndexOf(slots, id, hidden))).toEqual([-1, 0, 2, -1, 3]);
});

it("the first hole in a range is found, but none beyond the end", () => {
  expect(firstHole(parseSlots("ab·d··"), -5, 99)).toBe(2);
  expect(firstHole(parseSlots("ab·d··"), 3, 5)).toBe(4);
  expect(firstHole(parseSlots("abc"), 0, 99)).toBe(-1);
});
