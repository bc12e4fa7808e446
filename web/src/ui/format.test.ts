import { expect, test } from "vitest";
import { ago, counted, dollars, duration, exact, rough, titleOf } from "./format";

test("a moment is told from now, in the largest unit that fits", () => {
  const now = Date.parse("2026-03-01T12:00:00Z");
  const told = (at: string) => ago(at, now);
  expect(told("2026-03-01T11:59:31Z")).toBe("now");
  expect(told("2026-03-01T11:57:00Z")).toBe("3m ago");
  expect(told("2026-03-01T10:00:00Z")).toBe("2h ago");
  expect(told("2026-02-28T12:00:00Z")).toBe("yesterday");
  expect(told("2026-02-26T12:00:00Z")).toBe("3d ago");
  expect(told("2025-11-01T12:00:00Z")).toBe("4mo ago");
  expect(told("2024-02-01T12:00:00Z")).toBe("2y ago");
  // Clocks differ a little.
  expect(told("2026-03-01T12:00:02Z")).toBe("now");
  expect(told("2026-03-01T12:05:00Z")).toBe("in 5m");
});

test("a moment in full has its year", () => {
  expect(exact("2026-03-01T12:00:00Z")).toContain("2026");
});

test("numbers are short where the last digits matter to nobody", () => {
  expect([0, 999, 1_234, 150_240, 1_000_000].map(rough)).toEqual(["0", "999", "1.2k", "150.2k", "1m"]);
  expect([counted(1, "message"), counted(12_345, "message"), counted(0, "entry", "entries")]).toEqual([
    "1 message",
    "12,345 messages",
    "0 entries",
  ]);
});

test("durations are told as precisely as one can feel them, and never as sixty", () => {
  const cases = [0, 80.4, 999.7, 1_000, 2_345, 59_949, 59_990, 60_000, 65_000, 119_900, 3_599_700, 7_500_000];
  expect(cases.map(duration)).toEqual([
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

test("prices have the digits that say something, and what has none is not free", () => {
  expect([dollars(null), dollars(0.00123), dollars(1.5)]).toEqual(["", "$0.0012", "$1.50"]);
});

test("a thread is called by its name, else by how it began", () => {
  expect(titleOf({ name: "Kettle", first_prompt: "Mend it", title: "Mend" })).toBe("Kettle");
  expect(titleOf({ name: null, first_prompt: "Mend it" })).toBe("Mend it");
  expect(titleOf({ name: "", first_prompt: null, title: null })).toBe("New thread");
});
