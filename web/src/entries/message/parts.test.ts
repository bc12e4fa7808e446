// A streamed answer and the stored one consist of the same parts.
import { expect, test } from "vitest";
import type { ContentBlock } from "../../api/types";
import type { ToolInvocation } from "../../thread/items";
import { answerParts, streamingParts, textOf } from "./parts";

const call: ToolInvocation = { id: "c", name: "ls", args: {}, result: null, progress: null };
const content: ContentBlock[] = [
  { type: "thinking", text: "Hm" },
  { type: "text", text: "One " },
  { type: "text", text: "two" },
  { type: "tool_call", id: "c", name: "ls", args: {} },
  { type: "opaque", provider: "x" },
  { type: "text", text: "three" },
];

test("c5_a_streamed_answer_has_the_parts_of_the_stored_one", () => {
  const stored = answerParts(content, [call]);
  expect(stored.map(({ kind, key }) => `${kind} ${key}`)).toEqual([
    "thought thought0",
    "text text0",
    "call c",
    "text text1",
  ]);
  expect(streamingParts({ id: "m", thinking: "Hm", text: "One two" })).toEqual(stored.slice(0, 2));
  expect(streamingParts({ id: "m", thinking: " ", text: "" })).toEqual([]);
  // Parsing the same entry again gives the same parts.
  expect(answerParts(content, [call])).toEqual(stored);
});

test("the copied text has no reasoning or calls", () => expect(textOf(content)).toBe("One \n\ntwo\n\nthree"));
