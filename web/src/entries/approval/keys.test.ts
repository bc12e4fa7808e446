// That nobody who types ahead approves anything.
import { expect, test } from "vitest";
import { type Mark, NONE, pressed } from "./keys";

const LETTERS = ["y", "e", "n", "r"];

/** Presses keys; `\r` is Enter. Returns what Enter would confirm at the end of them. */
function confirmed(keys: string): number | null {
  let mark: Mark = NONE;
  for (const key of keys) {
    const enter = key === "\r";
    if (enter && mark.is === "marked") return mark.at;
    mark = pressed(mark, enter ? "Enter" : key, LETTERS);
  }
  return null;
}

test.each<[string, number | null]>([
  ["\r\r ", null],
  ["y", null],
  ["y\r", 0],
  ["Y\r", 0],
  ["yy\r", 0],
  ["y \r", 0],
  ["yes\r", null],
  ["away\r", null],
  ["say\r", null],
  ["any way\r", null],
  ["yes\ry\r", 0],
  ["x\rn\r", 2],
])("g5_%j", (keys, expected) => expect(confirmed(keys)).toBe(expected));
