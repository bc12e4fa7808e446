import { expect, test } from "vitest";
import {
  relativeTime,
  formatCount,
  formatDollars,
  formatDuration,
  absoluteTime,
  compactNumber,
  shortId,
  titleOf,
} from "./format";

test("a relative time uses the largest unit that fits", () => {
  const now = Date.parse("2026-03-01T12:00:00Z");
  const render = (at: string) => relativeTime(at, now);
  expect(render("2026-03-01T11:59:31Z")).toBe("just now");
  expect(render("2026-03-01T11:57:00Z")).toBe("3m ago");
  expect(render("2026-03-01T10:00:00Z")).toBe("2h ago");
  expect(render("2026-02-28T12:00:00Z")).toBe("yesterday");
  expect(render("2026-02-26T12:00:00Z")).toBe("3d ago");
  expect(render("2025-11-01T12:00:00Z")).toBe("4mo ago");
  expect(render("2024-02-01T12:00:00Z")).toBe("2y ago");
  // Clocks differ slightly.
  expect(render("2026-03-01T12:00:02Z")).toBe("just now");
  expect(render("2026-03-01T12:05:00Z")).toBe("in 5m");
});

test("an absolute time has a year", () => {
  expect(absoluteTime("2026-03-01T12:00:00Z")).toContain("2026");
});

test("large numbers are rounded", () => {
  expect([0, 999, 1_234, 150_240, 1_000_000].map(compactNumber)).toEqual([
    "0",
    "999",
    "1.2k",
    "150.2k",
    "1m",
  ]);
  expect([
    formatCount(1, "message"),
    formatCount(12_345, "message"),
    formatCount(0, "entry", "entries"),
  ]).toEqual(["1 message", "12,345 messages", "0 entries"]);
});

test("durations are rounded by size, and never to sixty of a unit", () => {
  const cases = [0, 80.4, 999.7, 1_000, 2_345, 59_949, 59_990, 60_000, 65_000, 119_900, 3_599_700, 7_500_000];
  expect(cases.map(formatDuration)).toEqual([
    "0 ms",
    "80 ms",
    "1.0 s",
    "1.0 s",
    "2.3 s",
    "59.9 s",
    "1 min 0 s",
    "1 min 0 s",
    "1 min 5 s",
    "2 min 0 s",
    "1 h 0 min",
    "2 h 5 min",
  ]);
});

test("prices have significant digits, and an unknown price is empty", () => {
  expect([formatDollars(null), formatDollars(0.00123), formatDollars(1.5)]).toEqual(["", "$0.0012", "$1.50"]);
});

test("the title of a thread is its name, or else its first message", () => {
  expect(titleOf({ name: "Kettle", first_prompt: "Mend it", title: "Mend" })).toBe("Kettle");
  expect(titleOf({ name: null, first_prompt: "Mend it" })).toBe("Mend it");
  expect(titleOf({ name: "", first_prompt: null, title: null })).toBe("New thread");
});

test("a short id is as long as it must be to be unique", () => {
  const ids = ["01980000-1111-7000-8000-000000000000", "01980000-1111-7001-8000-000000000000"];
  const [first = "", second = ""] = ids;
  expect(shortId(first, [first])).toBe("01980000-1111");
  expect(shortId(first, ids)).toBe("01980000-1111-7000");
  expect(shortId(second, ids)).toBe("01980000-1111-7001");
  expect(shortId(first, [`${first.slice(0, -1)}1`])).toBe(first);
});
