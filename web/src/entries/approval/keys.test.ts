// Typing ahead must never approve a call.
import { expect, test } from "vitest";
import { type AnswerKeyState, IDLE, nextKeyState } from "./keys";

const LETTERS = ["y", "e", "n", "r"];

/** Simulates key presses, where `\r` is Enter. Returns the index of the answer that Enter confirms. */
function confirmedAnswer(keys: string): number | null {
  let state: AnswerKeyState = IDLE;
  for (const key of keys) {
    const isEnter = key === "\r";
    if (isEnter && state.kind === "marked") return state.at;
    state = nextKeyState(state, isEnter ? "Enter" : key, LETTERS);
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
])("g5_%j", (keys, expected) => expect(confirmedAnswer(keys)).toBe(expected));
