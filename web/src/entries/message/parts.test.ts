// That an answer is drawn from the same parts while it is said and once it is stored.
import { expect, test } from "vitest";
import type { Block } from "../../api/types";
import type { Call } from "../../thread/items";
import { parts, said, textOf } from "./parts";

const call: Call = { id: "c", name: "ls", args: {}, result: null, working: null };
const content: Block[] = [
  { type: "thinking", text: "Hm" },
  { type: "text", text: "One " },
  { type: "text", text: "two" },
  { type: "tool_call", id: "c", name: "ls", args: {} },
  { type: "opaque", provider: "x" },
  { type: "text", text: "three" },
];

test("c5_the_parts_of_what_is_said_are_those_of_what_is_stored", () => {
  const stored = parts(content, [call]);
  expect(stored.map(({ kind, key }) => `${kind} ${key}`)).toEqual([
    "thought thought0",
    "text text0",
    "call c",
    "text text1",
  ]);
  expect(said({ id: "m", thinking: "Hm", text: "One two" })).toEqual(stored.slice(0, 2));
  expect(said({ id: "m", thinking: " ", text: "" })).toEqual([]);
  // The entry is read again and again.
  expect(parts(content, [call])).toEqual(stored);
});

test("what is copied is what was said", () => expect(textOf(content)).toBe("One \n\ntwo\n\nthree"));
