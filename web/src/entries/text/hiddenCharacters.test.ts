import { expect, it } from "vitest";
import { hasHidden, splitHidden } from "./hiddenCharacters";

const render = (text: string) =>
  splitHidden(text)
    .map((piece) => ("text" in piece ? piece.text : `[${piece.code}×${piece.count}]`))
    .join("");

it.each([
  ["plain text\n", "plain text\n"],
  ["bad \u202egnp.exe", "bad [U+202E×1]gnp.exe"],
  ["\u202efirst", "[U+202E×1]first"],
  ["a\u202eb\u202ec", "a[U+202E×1]b[U+202E×1]c"],
  ["a\u200b\u200bb", "a[U+200B×2]b"],
  ["größe 日本語", "größe 日本語"],
])("k8_hidden characters in %j are found", (text, expected) => {
  // Runs twice, because a regular expression with state could affect the second call.
  for (const _ of [1, 2]) {
    expect(render(text)).toBe(expected);
    expect(hasHidden(text)).toBe(text !== expected);
  }
});
