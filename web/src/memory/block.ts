// agent.md as a person changes it: what is theirs before and after the part that Segue keeps, and that part. Pure. Whether a
// change is taken is the server's.

const MANAGED =
  /(?:^## Recent Thread Snapshot[ \t]*(?:\r\n|\n|\r))?^ {0,3}<current_thread_summary>(?<block>[^]*?)<\/current_thread_summary>[ \t]*(?:\r\n|\n|\r|$(?![^]))/gm;
const BOM = "\ufeff";

/** The notes of a file, around the managed part. */
export interface Notes {
  before: string;
  after: string;
}

/** A file in its parts; joined in order they are the file, byte for byte. */
export interface Parts extends Notes {
  /** The byte order mark, or nothing. */
  mark: string;
  /** What Segue keeps, with its tags; empty where there is none. */
  managed: string;
  /** Ends of lines, as the file has them. */
  lineEnd: "\n" | "\r\n";
}

/** Splits a file at the managed part; `null` when it cannot be told which one it is. */
export function split(text: string, block: string | null): Parts | null {
  const mark = text.startsWith(BOM) ? BOM : "";
  const rest = text.slice(mark.length);
  const lineEnd = rest.includes("\r\n") ? "\r\n" : "\n";
  if (block === null) return { mark, before: rest, managed: "", after: "", lineEnd };
  // The tags stand on lines of their own, which are part of it, as is the heading that Segue gives it.
  const found = [...rest.matchAll(MANAGED)].filter((match) => match.groups?.block?.trim() === block.trim());
  const [only] = found;
  if (!only || found.length > 1) return null;
  const [managed] = only;
  const before = rest.slice(0, only.index);
  return { mark, before, managed, after: rest.slice(only.index + managed.length), lineEnd };
}

/** Puts the file together with other notes. */
export function join(parts: Parts, notes: Notes): string {
  const { mark, managed, lineEnd } = parts;
  const [before, after] = [
    ended(parts.before, notes.before, lineEnd),
    ended(parts.after, notes.after, lineEnd),
  ];
  if (!managed) return mark + before;
  const gap = (text: string, next: string) => (text && next && !/[\r\n]$/.test(text) ? lineEnd : "");
  return mark + before + gap(before, managed) + managed + gap(managed, after) + after;
}

/** Gives lines the ends they had in the file: a field of a page knows one end of line only. */
function ended(was: string, is: string, lineEnd: string): string {
  if (is === shown(was)) return was;
  const [before, lines] = [shown(was).split("\n"), is.split("\n")];
  const ends = was.match(/\r\n|\n|\r/g) ?? [];
  const { start, end } = changed(before, lines);
  const isSame = (index: number) => index + 1 >= lines.length - (before.length - end);
  const endOf = (index: number) =>
    index < start ? ends[index] : isSame(index) ? ends[index - (lines.length - before.length)] : lineEnd;
  return lines
    .map((line, index) => line + (index + 1 < lines.length ? (endOf(index) ?? lineEnd) : ""))
    .join("");
}

/** Text as a field shows it. */
export function shown(text: string): string {
  return text.replace(/\r\n?/g, "\n");
}

/** The notes as fields show them. */
export function notesOf(parts: Parts): Notes {
  return { before: shown(parts.before), after: shown(parts.after) };
}

export function isSame(a: Notes, b: Notes): boolean {
  return a.before === b.before && a.after === b.after;
}

/** The lines that differ: from, up to (of `to`), and how many lines from the end are the same. */
function changed(from: string[], to: string[]): { start: number; end: number } {
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start++;
  let tail = 0;
  while (
    tail < from.length - start &&
    tail < to.length - start &&
    from[from.length - 1 - tail] === to[to.length - 1 - tail]
  )
    tail++;
  return { start, end: from.length - tail };
}

/** Both changes of one text, where they are of different lines; `null` where a person has to look. */
export function merged(base: string, mine: string, theirs: string): string | null {
  if (mine === theirs || theirs === base) return mine;
  if (mine === base) return theirs;
  const [from, ours, others] = [base.split("\n"), mine.split("\n"), theirs.split("\n")];
  const [a, b] = [changed(from, ours), changed(from, others)];
  const put = (text: string[], { start, end }: { start: number; end: number }) =>
    text.slice(start, text.length - (from.length - end));
  const [first, second] = a.end < b.start ? [a, b] : b.end < a.start ? [b, a] : [null, null];
  if (!first || !second) return null;
  const [one, two] = first === a ? [put(ours, a), put(others, b)] : [put(others, b), put(ours, a)];
  return [
    ...from.slice(0, first.start),
    ...one,
    ...from.slice(first.end, second.start),
    ...two,
    ...from.slice(second.end),
  ].join("\n");
}

/** The same for both notes. */
export function mergedNotes(base: Notes, mine: Notes, theirs: Notes): Notes | null {
  const before = merged(base.before, mine.before, theirs.before);
  const after = merged(base.after, mine.after, theirs.after);
  return before === null || after === null ? null : { before, after };
}
