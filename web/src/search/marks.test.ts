import { expect, test } from "vitest";
import { marked } from "./marks";

/** The snippet with brackets around what is found. */
const shown = (snippet: string, ...words: string[]) =>
  marked(snippet, words)
    .map(({ text, isFound }) => (isFound ? `[${text}]` : text))
    .join("");

test("words are found whole, whatever their case, accents and endings", () => {
  expect(shown("The clock stopped; clocks stop.", "clock", "stop")).toBe(
    "The [clock] [stopped]; [clocks] [stop].",
  );
  expect(shown("Retries retry", "retry")).toBe("[Retries] [retry]");
  expect(shown("Café or cafe", "CAFE")).toBe("[Café] or [cafe]");
  expect(shown("o'clock and clockwork", "clock")).toBe("o'[clock] and clockwork");
});

test("a phrase counts word by word, and marks are no words", () => {
  expect(shown("read the clock twice", "the clock")).toBe("read [the] [clock] twice");
  expect(shown("a+b", "+")).toBe("a+b");
  expect(shown("lease_renewal.rs", "lease_renewal")).toBe("[lease_renewal].rs");
});

test("scripts without blanks are searched inside", () => {
  expect(shown("时钟被读取两次", "时钟", "两次")).toBe("[时钟]被读取[两次]");
});

test("nothing is lost or made up", () => {
  const snippet = "<b>clock</b> \u202e clock 🕰️ clock";
  expect(
    marked(snippet, ["clock"])
      .map(({ text }) => text)
      .join(""),
  ).toBe(snippet);
  expect(marked("", ["x"])).toEqual([]);
  expect(marked("abc", [])).toEqual([{ text: "abc", isFound: false }]);
});
