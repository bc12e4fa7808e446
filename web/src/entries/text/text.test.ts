// Hidden characters are made visible, and terminal output is converted to plain text.
import { expect, test } from "vitest";
import { hasHidden, oneLine, splitHidden, hasBidiOverrides, escapeHidden } from "./hiddenCharacters";
import { head, lineCount, stripEscapeCodes, tail } from "./output";

test.each([
  ["plain\n\ttext", "plain\n\ttext"],
  ["rm \u202etxt.exe", "rm ⟨U+202E⟩txt.exe"],
  ["a\u200bb\ufeffc\u2066d", "a⟨U+200B⟩b⟨U+FEFF⟩c⟨U+2066⟩d"],
  ["\u001b[2J\u0000\u0085", "⟨U+001B⟩[2J⟨U+0000⟩⟨U+0085⟩"],
  ["x\u{e0041}y", "x⟨U+E0041⟩y"],
  ["a\r\nb\rc", "a\r\nb⟨U+000D⟩c"],
  ["soft\u00adware", "soft⟨U+00AD⟩ware"],
  ["größe 你好 👩\u200d💻 ❤\ufe0f", "größe 你好 👩\u200d💻 ❤\ufe0f"],
  ["a\u200db", "a⟨U+200D⟩b"],
])("k8_hidden_characters_are_escaped %j", (text, expected) => {
  expect(escapeHidden(text)).toBe(expected);
  expect(hasHidden(text)).toBe(text !== expected);
});

test("k8_hidden_characters_are_separate_segments_and_repetitions_are_merged", () => {
  expect(splitHidden("a\u202eb")).toEqual([
    { text: "a" },
    { code: "U+202E", reorders: true, count: 1 },
    { text: "b" },
  ]);
  expect(splitHidden("\u200b".repeat(100_000))).toEqual([
    { code: "U+200B", reorders: false, count: 100_000 },
  ]);
  const many = splitHidden("a\u200b".repeat(10_000));
  expect(many.length).toBeLessThan(1_000);
  expect(many.at(-1)).toMatchObject({ text: expect.stringContaining("⟨U+200B⟩") as string });
  expect(hasBidiOverrides("\u202a") && !hasBidiOverrides("\u200f مرحبا")).toBe(true);
});

test("one line is flattened and truncated", () => {
  expect(oneLine(" a\n\n b\t\u202e ")).toBe("a b ⟨U+202E⟩");
  expect(oneLine("x".repeat(1_000_000), 10)).toBe(`${"x".repeat(10)}…`);
});

test.each([
  ["\u001b[31mred\u001b[0m", "red"],
  ["\u001b]0;title\u0007x", "x"],
  ["\u001b]8;;http://evil\u001b\\link\u001b]8;;\u001b\\", "link"],
  ["\u001b]52;c;unterminated", "52;c;unterminated"],
  ["\u009b31mx", "x"],
  ["\u001b(Bx", "x"],
  ["10%\r20%\r\ndone\r\n", "20%\ndone\n"],
])("escape sequences are removed %j", (text, expected) => expect(stripEscapeCodes(text)).toBe(expected));

test("unterminated sequences are processed fast", () => {
  expect(stripEscapeCodes("\u001b]".repeat(200_000))).toBe("");
  expect(stripEscapeCodes("\u001b[".repeat(200_000)).length).toBeLessThanOrEqual(200_000);
});

test("head and tail return lines", () => {
  expect([lineCount(""), lineCount("a"), lineCount("a\n"), lineCount("a\nb")]).toEqual([0, 1, 1, 2]);
  expect(head("a\nb\nc", 2, 100)).toBe("a\nb");
  expect(head("a\nb", 5, 100)).toBe("a\nb");
  expect(head("x".repeat(50), 5, 10)).toBe("x".repeat(10));
  expect(tail("a\nb\nc\n", 2, 100)).toBe("b\nc");
  expect(tail("a", 2, 100)).toBe("a");
  expect(tail("x".repeat(50), 2, 10)).toBe("x".repeat(10));
});
