// The diff of two texts, and the parsing of unified diffs.
import { expect, test } from "vitest";
import { type FileDiff, diffTexts, parseUnifiedDiff } from "./diff";

const render = ({ path, added, removed, lines }: FileDiff) => [
  `${path ?? "-"} +${added} -${removed}`,
  ...lines.map((line) =>
    line.sign === "@"
      ? `@${line.text}`
      : `${line.sign}${line.words.map(({ text, changed }) => (changed ? `[${text}]` : text)).join("")}`,
  ),
];

test("a diff shows removed and added lines with context", () => {
  expect(render(diffTexts("a\nb\nc\n", "a\nx\nc\n", "f"))).toEqual(["f +1 -1", " a", "-b", "+x", " c"]);
  expect(render(diffTexts("", "a\nb"))).toEqual(["- +2 -0", "+a", "+b"]);
  expect(render(diffTexts("same", "same"))).toEqual(["- +0 -0"]);
  const long = Array.from({ length: 20 }, (_, line) => `l${line}`);
  const other = long.map((line) => (line === "l10" ? "new" : line));
  expect(render(diffTexts(long.join("\n"), other.join("\n"))).filter((line) => line.startsWith("@"))).toEqual(
    ["@7 lines unchanged", "@6 lines unchanged"],
  );
});

test("the changed words of a line are marked", () => {
  expect(render(diffTexts("let now = Instant::now();", "let now = clock.now();")).slice(1)).toEqual([
    "-let now = [Instant::]now();",
    "+let now = [clock.]now();",
  ]);
  expect(render(diffTexts("one two", "three four")).slice(1)).toEqual(["-one two", "+three four"]);
});

test("a unified diff is parsed by its line counts", () => {
  const text = [
    "diff --git a/f b/f",
    "--- a/f",
    "+++ b/f",
    "@@ -1,2 +1,2 @@",
    "--- a",
    "+++ b",
    " c",
    "@@ -9 +9 @@ fn x",
    "-d",
    "+e",
    "\\ No newline at end of file",
  ];
  expect(parseUnifiedDiff(text.join("\n")).map(render)).toEqual([
    ["f +2 -2", "--- a", "+++ b", " c", "@@@ -9 +9 @@ fn x", "-d", "+e"],
  ]);
  expect(
    parseUnifiedDiff(
      "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-b",
    ).map(render),
  ).toEqual([
    ["n +1 -0", "+a"],
    ["o +0 -1", "-b"],
  ]);
  expect(parseUnifiedDiff("")).toEqual([]);
  // Text that is not a diff is still shown.
  expect(parseUnifiedDiff("hello").map(render)).toEqual([["- +0 -0", "@hello"]]);
});

test("unrelated texts are compared fast", () => {
  const lines = (word: string) => Array.from({ length: 4_900 }, (_, at) => `${word}${at}`).join("\n");
  expect(diffTexts(lines("a"), lines("b"))).toMatchObject({ added: 4_900, removed: 4_900 });
  expect(diffTexts(lines("a").repeat(3), "b")).toMatchObject({ added: 1 });
});
