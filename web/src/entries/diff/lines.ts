// What changed between two texts, line by line and in a changed line word by word; and the same read from a unified diff. How it
// looks is `Diff.svelte`'s.
import { align } from "./align";

export interface Word {
  text: string;
  changed: boolean;
}
export type Line =
  | { sign: "+" | "-" | " "; words: Word[]; old: number | null; new: number | null }
  /** A place where lines that stayed are left out, or what a diff says of it. */
  | { sign: "@"; text: string };
export interface Change {
  path: string | null;
  added: number;
  removed: number;
  lines: Line[];
}

/** Lines around a change that are shown with it. */
const CONTEXT_LINES = 3;
/** Lines and characters of a line beyond which nothing is compared any more. */
const LINES_MAX = 5_000;
const WORDS_CHARS_MAX = 1_000;

/** Returns what changed from one text to another. */
export function changes(before: string, after: string, path: string | null = null): Change {
  const [old, now] = [split(before), split(after)];
  const tooLong = old.length > LINES_MAX || now.length > LINES_MAX;
  const parts = tooLong
    ? [
        { is: "removed", value: old },
        { is: "added", value: now },
      ]
    : align(old, now);
  const lines: Line[] = [];
  let [left, right] = [1, 1];
  for (const { is, value } of parts) {
    for (const text of value) {
      const sign = is === "added" ? "+" : is === "removed" ? "-" : " ";
      lines.push({
        sign,
        words: [{ text, changed: false }],
        old: sign === "+" ? null : left++,
        new: sign === "-" ? null : right++,
      });
    }
  }
  return summed(path, withoutFar(lines));
}

/** Reads a unified diff, of one file or of several. */
export function unified(text: string): Change[] {
  const found: { path: string | null; lines: Line[] }[] = [];
  let [left, right] = [0, 0];
  // How many lines the hunk still holds: a line in it may look like a head.
  let [oldLeft, newLeft] = [0, 0];
  for (const line of split(text)) {
    const inside = oldLeft > 0 || newLeft > 0;
    const hunk = inside ? null : /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    if (!inside && line.startsWith("--- ")) {
      found.push({ path: pathOf(line), lines: [] });
    } else if (!inside && line.startsWith("+++ ")) {
      const file = found.at(-1);
      if (file) file.path = pathOf(line) ?? file.path;
    } else if (hunk) {
      if (found.length === 0) found.push({ path: null, lines: [] });
      [left, right] = [Number(hunk[1]), Number(hunk[3])];
      [oldLeft, newLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      if ((found.at(-1)?.lines.length ?? 0) > 0 || left > 1)
        found.at(-1)?.lines.push({ sign: "@", text: line });
    } else if (/^[+ -]/.test(line) || (line === "" && inside)) {
      const sign = (line[0] ?? " ") as "+" | "-" | " ";
      const words = [{ text: line.slice(1), changed: false }];
      if (found.length === 0) found.push({ path: null, lines: [] });
      found.at(-1)?.lines.push({
        sign,
        words,
        old: sign === "+" ? null : left++,
        new: sign === "-" ? null : right++,
      });
      if (sign !== "+") oldLeft -= 1;
      if (sign !== "-") newLeft -= 1;
    } else if (line && !/^(?:diff |index |\\ )/.test(line)) {
      if (found.length === 0) found.push({ path: null, lines: [] });
      found.at(-1)?.lines.push({ sign: "@", text: line });
    }
  }
  return found.map(({ path, lines }) => summed(path, lines));
}

function pathOf(line: string): string | null {
  const path =
    line
      .slice(4)
      .split("\t")[0]
      ?.replace(/^[ab]\//, "") ?? "";
  return path === "/dev/null" || path === "" ? null : path;
}

function split(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Leaves out what stayed and stands beside no change. */
function withoutFar(lines: Line[]): Line[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.sign === " ") return;
    near.fill(1, Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1);
  });
  const kept: Line[] = [];
  let left = 0;
  lines.forEach((line, at) => {
    if (near[at]) {
      if (left > 0) kept.push(gap(left));
      left = 0;
      kept.push(line);
    } else left += 1;
  });
  if (left > 0 && kept.length > 0) kept.push(gap(left));
  return kept;
}

const gap = (count: number): Line => ({
  sign: "@",
  text: `${count} ${count === 1 ? "line" : "lines"} unchanged`,
});

function summed(path: string | null, lines: Line[]): Change {
  const count = (sign: string) => lines.filter((line) => line.sign === sign).length;
  return { path, added: count("+"), removed: count("-"), lines: withWords(lines) };
}

/** Marks the words that changed where as many lines came as went. */
function withWords(lines: Line[]): Line[] {
  const marked = [...lines];
  let at = 0;
  while (at < marked.length) {
    if (marked[at]?.sign !== "-") {
      at += 1;
      continue;
    }
    let plus = at;
    while (marked[plus]?.sign === "-") plus += 1;
    let end = plus;
    while (marked[end]?.sign === "+") end += 1;
    if (end - plus === plus - at)
      for (let line = at; line < plus; line += 1) compare(marked, line, line + plus - at);
    at = end;
  }
  return marked;
}

function compare(lines: Line[], from: number, to: number): void {
  const [old, now] = [lines[from], lines[to]];
  if (!old || !now || !("words" in old) || !("words" in now)) return;
  const [before, after] = [textOf(old.words), textOf(now.words)];
  if (before.length > WORDS_CHARS_MAX || after.length > WORDS_CHARS_MAX) return;
  const parts = align(wordsOf(before), wordsOf(after));
  // Lines that have little in common are two lines.
  const kept = parts.filter(({ is }) => is === "same");
  const same = kept.reduce((sum, part) => sum + part.value.join("").trim().length, 0);
  if (same * 3 < Math.max(before.trim().length, after.trim().length)) return;
  const side = (leaves: "added" | "removed") =>
    parts
      .filter(({ is }) => is !== leaves)
      .map(({ is, value }): Word => ({ text: value.join(""), changed: is !== "same" }));
  lines[from] = { ...old, words: side("added") };
  lines[to] = { ...now, words: side("removed") };
}

const wordsOf = (text: string) => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];

/** Returns the text of a line. */
export function textOf(words: readonly Word[]): string {
  return words.map(({ text }) => text).join("");
}
