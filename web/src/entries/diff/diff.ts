// Line diffs of two texts with the changed words of each line, and the parsing of unified diffs.
// `DiffView.svelte` renders them.
import { diffSequences } from "./myers";

export interface DiffWord {
  text: string;
  changed: boolean;
}
export type DiffLine =
  | { sign: "+" | "-" | " "; words: DiffWord[]; old: number | null; new: number | null }
  /** A gap of unchanged lines, or a header line of a diff. */
  | { sign: "@"; text: string };
export interface FileDiff {
  path: string | null;
  added: number;
  removed: number;
  lines: DiffLine[];
}

/** The number of context lines around a change. */
const CONTEXT_LINES = 3;
/** The limits in lines and in characters of a line above which nothing is compared. */
const LINES_MAX = 5_000;
const WORDS_CHARS_MAX = 1_000;

/** Returns the diff between two texts. */
export function diffTexts(before: string, after: string, path: string | null = null): FileDiff {
  const [old, next] = [splitLines(before), splitLines(after)];
  const isTooLong = old.length > LINES_MAX || next.length > LINES_MAX;
  const parts = isTooLong
    ? [
        { op: "removed", value: old },
        { op: "added", value: next },
      ]
    : diffSequences(old, next);
  const lines: DiffLine[] = [];
  let [left, right] = [1, 1];
  for (const { op, value } of parts) {
    for (const text of value) {
      const sign = op === "added" ? "+" : op === "removed" ? "-" : " ";
      lines.push({
        sign,
        words: [{ text, changed: false }],
        old: sign === "+" ? null : left++,
        new: sign === "-" ? null : right++,
      });
    }
  }
  return toFileDiff(path, collapseUnchanged(lines));
}

/** Parses a unified diff of one or more files. */
export function parseUnifiedDiff(text: string): FileDiff[] {
  const files: { path: string | null; lines: DiffLine[] }[] = [];
  let [left, right] = [0, 0];
  // The remaining lines of the current hunk. They are counted because a line of a hunk may look like a file
  // header.
  let [oldLeft, newLeft] = [0, 0];
  for (const line of splitLines(text)) {
    const isInHunk = oldLeft > 0 || newLeft > 0;
    const hunk = isInHunk ? null : /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (!isInHunk && line.startsWith("--- ")) {
      files.push({ path: pathOf(line), lines: [] });
    } else if (!isInHunk && line.startsWith("+++ ")) {
      const file = files.at(-1);
      if (file) file.path = pathOf(line) ?? file.path;
    } else if (hunk) {
      if (files.length === 0) files.push({ path: null, lines: [] });
      [left, right] = [Number(hunk[1]), Number(hunk[3])];
      [oldLeft, newLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      if ((files.at(-1)?.lines.length ?? 0) > 0 || left > 1)
        files.at(-1)?.lines.push({ sign: "@", text: line });
    } else if (/^[+ -]/.test(line) || (line === "" && isInHunk)) {
      const sign = (line[0] ?? " ") as "+" | "-" | " ";
      const words = [{ text: line.slice(1), changed: false }];
      if (files.length === 0) files.push({ path: null, lines: [] });
      files.at(-1)?.lines.push({
        sign,
        words,
        old: sign === "+" ? null : left++,
        new: sign === "-" ? null : right++,
      });
      if (sign !== "+") oldLeft -= 1;
      if (sign !== "-") newLeft -= 1;
    } else if (line && !/^(?:diff |index |\\ )/.test(line)) {
      if (files.length === 0) files.push({ path: null, lines: [] });
      files.at(-1)?.lines.push({ sign: "@", text: line });
    }
  }
  return files.map(({ path, lines }) => toFileDiff(path, lines));
}

function pathOf(line: string): string | null {
  const path =
    line
      .slice(4)
      .split("\t")[0]
      ?.replace(/^[ab]\//, "") ?? "";
  return path === "/dev/null" || path === "" ? null : path;
}

function splitLines(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Removes unchanged lines that are not near a change. */
function collapseUnchanged(lines: DiffLine[]): DiffLine[] {
  const isNearChange = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.sign === " ") return;
    isNearChange.fill(1, Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1);
  });
  const result: DiffLine[] = [];
  let skipped = 0;
  lines.forEach((line, at) => {
    if (isNearChange[at]) {
      if (skipped > 0) result.push(gapLine(skipped));
      skipped = 0;
      result.push(line);
    } else skipped += 1;
  });
  if (skipped > 0 && result.length > 0) result.push(gapLine(skipped));
  return result;
}

const gapLine = (count: number): DiffLine => ({
  sign: "@",
  text: `${count} ${count === 1 ? "line" : "lines"} unchanged`,
});

function toFileDiff(path: string | null, lines: DiffLine[]): FileDiff {
  const count = (sign: string) => lines.filter((line) => line.sign === sign).length;
  return { path, added: count("+"), removed: count("-"), lines: markChangedWords(lines) };
}

/** Marks the changed words if a block has as many added as removed lines. */
function markChangedWords(lines: DiffLine[]): DiffLine[] {
  const result = [...lines];
  let at = 0;
  while (at < result.length) {
    if (result[at]?.sign !== "-") {
      at += 1;
      continue;
    }
    let firstAdded = at;
    while (result[firstAdded]?.sign === "-") firstAdded += 1;
    let end = firstAdded;
    while (result[end]?.sign === "+") end += 1;
    if (end - firstAdded === firstAdded - at)
      for (let line = at; line < firstAdded; line += 1) markWordPair(result, line, line + firstAdded - at);
    at = end;
  }
  return result;
}

function markWordPair(lines: DiffLine[], from: number, to: number): void {
  const [old, next] = [lines[from], lines[to]];
  if (!old || !next || !("words" in old) || !("words" in next)) return;
  const [before, after] = [textOf(old.words), textOf(next.words)];
  if (before.length > WORDS_CHARS_MAX || after.length > WORDS_CHARS_MAX) return;
  const parts = diffSequences(splitWords(before), splitWords(after));
  // Lines with little in common are shown as unrelated lines.
  const unchanged = parts.filter(({ op }) => op === "same");
  const same = unchanged.reduce((sum, part) => sum + part.value.join("").trim().length, 0);
  if (same * 3 < Math.max(before.trim().length, after.trim().length)) return;
  const sideWords = (omitted: "added" | "removed") =>
    parts
      .filter(({ op }) => op !== omitted)
      .map(({ op, value }): DiffWord => ({ text: value.join(""), changed: op !== "same" }));
  lines[from] = { ...old, words: sideWords("added") };
  lines[to] = { ...next, words: sideWords("removed") };
}

const splitWords = (text: string) => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];

/** Returns the text of a line. */
export function textOf(words: readonly DiffWord[]): string {
  return words.map(({ text }) => text).join("");
}
