// The parts of agent.md: the person's notes before and after the section managed by Segue, and that section.
// Pure. The server decides if a change is accepted.

const MANAGED =
  /(?:^## Recent Thread Snapshot[ \t]*(?:\r\n|\n|\r))?^ {0,3}<current_thread_summary>(?<block>[^]*?)<\/current_thread_summary>[ \t]*(?:\r\n|\n|\r|$(?![^]))/gm;
const BOM = "\ufeff";

/** The notes around the managed section. */
export interface AgentNotes {
  before: string;
  after: string;
}

/** The parts of a file. Joined in order they are the file, byte for byte. */
export interface AgentFileParts extends AgentNotes {
  /** The byte order mark, or an empty string. */
  mark: string;
  /** The managed section with its tags; empty if there is none. */
  managed: string;
  /** The line ending of the file. */
  lineEnd: "\n" | "\r\n";
}

/** Splits a file at the managed section. Returns null if the section is ambiguous. */
export function splitFile(text: string, block: string | null): AgentFileParts | null {
  const mark = text.startsWith(BOM) ? BOM : "";
  const rest = text.slice(mark.length);
  const lineEnd = rest.includes("\r\n") ? "\r\n" : "\n";
  if (block === null) return { mark, before: rest, managed: "", after: "", lineEnd };
  // The section includes the lines of its tags and the heading that Segue writes.
  const matches = [...rest.matchAll(MANAGED)].filter((match) => match.groups?.block?.trim() === block.trim());
  const [match] = matches;
  if (!match || matches.length > 1) return null;
  const [managed] = match;
  const before = rest.slice(0, match.index);
  return { mark, before, managed, after: rest.slice(match.index + managed.length), lineEnd };
}

/** Returns the file with new notes. */
export function joinFile(parts: AgentFileParts, notes: AgentNotes): string {
  const { mark, managed, lineEnd } = parts;
  const [before, after] = [
    restoreLineEnds(parts.before, notes.before, lineEnd),
    restoreLineEnds(parts.after, notes.after, lineEnd),
  ];
  if (!managed) return mark + before;
  const separator = (text: string, next: string) => (text && next && !/[\r\n]$/.test(text) ? lineEnd : "");
  return mark + before + separator(before, managed) + managed + separator(managed, after) + after;
}

/** Restores the original line endings, because a text field normalizes them. */
function restoreLineEnds(original: string, edited: string, lineEnd: string): string {
  if (edited === normalizeLineEnds(original)) return original;
  const [before, lines] = [normalizeLineEnds(original).split("\n"), edited.split("\n")];
  const ends = original.match(/\r\n|\n|\r/g) ?? [];
  const { start, end } = changedRange(before, lines);
  const isSameNotes = (index: number) => index + 1 >= lines.length - (before.length - end);
  const endOf = (index: number) =>
    index < start ? ends[index] : isSameNotes(index) ? ends[index - (lines.length - before.length)] : lineEnd;
  return lines
    .map((line, index) => line + (index + 1 < lines.length ? (endOf(index) ?? lineEnd) : ""))
    .join("");
}

/** Normalizes line endings like a text field does. */
export function normalizeLineEnds(text: string): string {
  return text.replace(/\r\n?/g, "\n");
}

/** Returns the notes with normalized line endings. */
export function notesOf(parts: AgentFileParts): AgentNotes {
  return { before: normalizeLineEnds(parts.before), after: normalizeLineEnds(parts.after) };
}

export function isSame(a: AgentNotes, b: AgentNotes): boolean {
  return a.before === b.before && a.after === b.after;
}

/** Returns the changed range: the first changed line, and the end of the range in `from`. */
function changedRange(from: string[], to: string[]): { start: number; end: number } {
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

/** Merges two changes of one text. Returns null if they affect the same or adjacent lines. */
export function mergeText(base: string, mine: string, theirs: string): string | null {
  if (mine === theirs || theirs === base) return mine;
  if (mine === base) return theirs;
  const [from, ours, others] = [base.split("\n"), mine.split("\n"), theirs.split("\n")];
  const [a, b] = [changedRange(from, ours), changedRange(from, others)];
  const changedLines = (text: string[], { start, end }: { start: number; end: number }) =>
    text.slice(start, text.length - (from.length - end));
  const [first, second] = a.end < b.start ? [a, b] : b.end < a.start ? [b, a] : [null, null];
  if (!first || !second) return null;
  const [changeA, changeB] =
    first === a
      ? [changedLines(ours, a), changedLines(others, b)]
      : [changedLines(others, b), changedLines(ours, a)];
  return [
    ...from.slice(0, first.start),
    ...changeA,
    ...from.slice(first.end, second.start),
    ...changeB,
    ...from.slice(second.end),
  ].join("\n");
}

/** Merges both notes. */
export function mergeNotes(base: AgentNotes, mine: AgentNotes, theirs: AgentNotes): AgentNotes | null {
  const before = mergeText(base.before, mine.before, theirs.before);
  const after = mergeText(base.after, mine.after, theirs.after);
  return before === null || after === null ? null : { before, after };
}
