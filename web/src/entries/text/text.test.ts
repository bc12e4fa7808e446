// That nothing hides in what a person judges, and that what programs print is text.
import { expect, test } from "vitest";
import { hides, oneLine, pieces, reorders, written } from "./inert";
import { head, lineCount, printed, tail } from "./output";

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
])("k8_what_hides_is_written_out %j", (text, expected) => {
  expect(written(text)).toBe(expected);
  expect(hides(text)).toBe(text !== expected);
});

test("k8_hidden_characters_are_pieces_of_their_own_and_many_of_them_are_few", () => {
  expect(pieces("a\u202eb")).toEqual([
    { text: "a" },
    { code: "U+202E", reorders: true, count: 1 },
    { text: "b" },
  ]);
  expect(pieces("\u200b".repeat(100_000))).toEqual([{ code: "U+200B", reorders: false, count: 100_000 }]);
  const many = pieces("a\u200b".repeat(10_000));
  expect(many.length).toBeLessThan(1_000);
  expect(many.at(-1)).toMatchObject({ text: expect.stringContaining("⟨U+200B⟩") as string });
  expect(reorders("\u202a") && !reorders("\u200f مرحبا")).toBe(true);
});

test("a line is one, and as long as it may be", () => {
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
])("codes for a terminal are no text %j", (text, expected) => expect(printed(text)).toBe(expected));

test("sequences that nothing ends take no time", () => {
  expect(printed("\u001b]".repeat(200_000))).toBe("");
  expect(printed("\u001b[".repeat(200_000)).length).toBeLessThanOrEqual(200_000);
});

test("the beginning and the end of a text are lines", () => {
  expect([lineCount(""), lineCount("a"), lineCount("a\n"), lineCount("a\nb")]).toEqual([0, 1, 1, 2]);
  expect(head("a\nb\nc", 2, 100)).toBe("a\nb");
  expect(head("a\nb", 5, 100)).toBe("a\nb");
  expect(head("x".repeat(50), 5, 10)).toBe("x".repeat(10));
  expect(tail("a\nb\nc\n", 2, 100)).toBe("b\nc");
  expect(tail("a", 2, 100)).toBe("a");
  expect(tail("x".repeat(50), 2, 10)).toBe("x".repeat(10));
});
