// What two texts and a unified diff are drawn as.
import { expect, test } from "vitest";
import { type Change, changes, unified } from "./lines";

const drawn = ({ path, added, removed, lines }: Change) => [
  `${path ?? "-"} +${added} -${removed}`,
  ...lines.map((line) =>
    line.sign === "@"
      ? `@${line.text}`
      : `${line.sign}${line.words.map(({ text, changed }) => (changed ? `[${text}]` : text)).join("")}`,
  ),
];

test("a change shows what goes and what comes, and a little of what stays", () => {
  expect(drawn(changes("a\nb\nc\n", "a\nx\nc\n", "f"))).toEqual(["f +1 -1", " a", "-b", "+x", " c"]);
  expect(drawn(changes("", "a\nb"))).toEqual(["- +2 -0", "+a", "+b"]);
  expect(drawn(changes("same", "same"))).toEqual(["- +0 -0"]);
  const long = Array.from({ length: 20 }, (_, line) => `l${line}`);
  const other = long.map((line) => (line === "l10" ? "new" : line));
  expect(drawn(changes(long.join("\n"), other.join("\n"))).filter((line) => line.startsWith("@"))).toEqual([
    "@7 lines unchanged",
    "@6 lines unchanged",
  ]);
});

test("in a line that changed, the words that did are marked", () => {
  expect(drawn(changes("let now = Instant::now();", "let now = clock.now();")).slice(1)).toEqual([
    "-let now = [Instant::]now();",
    "+let now = [clock.]now();",
  ]);
  expect(drawn(changes("one two", "three four")).slice(1)).toEqual(["-one two", "+three four"]);
});

test("a unified diff is read by its counts, whatever its lines look like", () => {
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
  expect(unified(text.join("\n")).map(drawn)).toEqual([
    ["f +2 -2", "--- a", "+++ b", " c", "@@@ -9 +9 @@ fn x", "-d", "+e"],
  ]);
  expect(
    unified("--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+a\n--- a/o\n+++ /dev/null\n@@ -1 +0,0 @@\n-b").map(
      drawn,
    ),
  ).toEqual([
    ["n +1 -0", "+a"],
    ["o +0 -1", "-b"],
  ]);
  expect(unified("")).toEqual([]);
  // What is no diff is shown all the same.
  expect(unified("hello").map(drawn)).toEqual([["- +0 -0", "@hello"]]);
});

test("texts that have nothing in common are compared soon", () => {
  const lines = (word: string) => Array.from({ length: 4_900 }, (_, at) => `${word}${at}`).join("\n");
  expect(changes(lines("a"), lines("b"))).toMatchObject({ added: 4_900, removed: 4_900 });
  expect(changes(lines("a").repeat(3), "b")).toMatchObject({ added: 1 });
});
