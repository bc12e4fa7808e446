import { expect, it } from "vitest";
import { hides, pieces } from "./inert";

const written = (text: string) =>
  pieces(text)
    .map((piece) => ("text" in piece ? piece.text : `[${piece.code}×${piece.count}]`))
    .join("");

it.each([
  ["plain text\n", "plain text\n"],
  ["bad \u202egnp.exe", "bad [U+202E×1]gnp.exe"],
  ["\u202efirst", "[U+202E×1]first"],
  ["a\u202eb\u202ec", "a[U+202E×1]b[U+202E×1]c"],
  ["a\u200b\u200bb", "a[U+200B×2]b"],
  ["größe 日本語", "größe 日本語"],
])("k8_nothing in %j is overlooked", (text, shown) => {
  // Twice: what was asked of one text leaves nothing behind for the next.
  for (const _ of [1, 2]) {
    expect(written(text)).toBe(shown);
    expect(hides(text)).toBe(text !== shown);
  }
});
