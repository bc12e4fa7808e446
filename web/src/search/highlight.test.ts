import { expect, test } from "vitest";
import { markWords } from "./highlight";

/** Renders the snippet with brackets around the matches. */
const render = (snippet: string, ...words: string[]) =>
  markWords(snippet, words)
    .map(({ text, isMatch }) => (isMatch ? `[${text}]` : text))
    .join("");

test("whole words match in any case, with accents and endings", () => {
  expect(render("The clock stopped; clocks stop.", "clock", "stop")).toBe(
    "The [clock] [stopped]; [clocks] [stop].",
  );
  expect(render("Retries retry", "retry")).toBe("[Retries] [retry]");
  expect(render("Café or cafe", "CAFE")).toBe("[Café] or [cafe]");
  expect(render("o'clock and clockwork", "clock")).toBe("o'[clock] and clockwork");
});

test("the words of a phrase match individually, punctuation does not", () => {
  expect(render("read the clock twice", "the clock")).toBe("read [the] [clock] twice");
  expect(render("a+b", "+")).toBe("a+b");
  expect(render("lease_renewal.rs", "lease_renewal")).toBe("[lease_renewal].rs");
});

test("scripts without spaces match within words", () => {
  expect(render("时钟被读取两次", "时钟", "两次")).toBe("[时钟]被读取[两次]");
});

test("the text is unchanged", () => {
  const snippet = "<b>clock</b> \u202e clock 🕰️ clock";
  expect(
    markWords(snippet, ["clock"])
      .map(({ text }) => text)
      .join(""),
  ).toBe(snippet);
  expect(markWords("", ["x"])).toEqual([]);
  expect(markWords("abc", [])).toEqual([{ text: "abc", isMatch: false }]);
});
