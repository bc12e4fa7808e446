// Parser for Markdown blocks: paragraphs, headings, lists, tables, quotes and code. It covers the parts of
// CommonMark and of GitHub's tables and tasks that answers use; HTML is text. Each line is read a bounded
// number of times, for any input. `inlines.ts` parses the text of a line.

export type Align = "left" | "center" | "right" | null;
export interface ListItem {
  /** True if the task is done; null for an item that is not a task. */
  done: boolean | null;
  blocks: Block[];
}
export type Block =
  | { type: "paragraph"; text: string }
  | { type: "heading"; depth: number; text: string }
  | { type: "code"; lang: string; text: string; open: boolean }
  | { type: "quote"; blocks: Block[] }
  | { type: "list"; first: number | null; loose: boolean; items: ListItem[] }
  | { type: "table"; align: Align[]; head: string[]; rows: string[][] }
  | { type: "rule" };

/** A block and the line where it starts. */
export interface PositionedBlock {
  block: Block;
  line: number;
}

/** The maximum nesting depth of quotes and lists; deeper ones are text. */
const DEPTH_MAX = 12;
/** The maximum number of columns; wider tables are text. */
const COLUMNS_MAX = 60;

const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s`]*)/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( {0,3})([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const TASK = /^\[([ xX])\][ \t]+(?=\S)/;

/** Returns the blocks of a text. */
export function parseBlocks(text: string): Block[] {
  return parseLines(text.split(/\r?\n/)).map(({ block }) => block);
}

/** Returns the blocks of the lines, with the line where each starts. */
export function parseLines(lines: string[], depth = 0): PositionedBlock[] {
  const result: PositionedBlock[] = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    const { block, next } = parseBlock(lines, at, depth);
    result.push({ block, line: at });
    at = next;
  }
  return result;
}

interface ParsedBlock {
  block: Block;
  /** The line after the block. */
  next: number;
}

function parseBlock(lines: string[], at: number, depth: number): ParsedBlock {
  const line = lines[at] ?? "";
  const canNest = depth < DEPTH_MAX;
  if (indentWidth(line) >= 4) return parseIndentedCode(lines, at);
  const fence = FENCE.exec(line);
  if (fence) return parseFencedCode(lines, at, fence);
  if (RULE.test(line)) return { block: { type: "rule" }, next: at + 1 };
  const heading = HEADING.exec(line);
  if (heading) {
    const text = stripClosingHashes(line.slice(heading[0].length).trim());
    return { block: { type: "heading", depth: heading[1]?.length ?? 1, text }, next: at + 1 };
  }
  if (canNest && QUOTE.test(line)) return parseQuote(lines, at, depth);
  if (canNest && MARKER.test(line)) return parseList(lines, at, depth);
  return parseTable(lines, at) ?? parseParagraph(lines, at);
}

const isBlank = (line: string | undefined) => line === undefined || /^\s*$/.test(line);

/** Returns the width of the leading white space; tab stops are at multiples of four. */
function indentWidth(line: string): number {
  let columns = 0;
  for (const char of line) {
    if (char === " ") columns += 1;
    else if (char === "\t") columns += 4 - (columns % 4);
    else break;
  }
  return columns;
}

/** Removes leading white space up to the given width. */
function removeIndent(line: string, columns: number): string {
  let removed = 0;
  let at = 0;
  for (; at < line.length && removed < columns; at += 1) {
    if (line[at] === " ") removed += 1;
    else if (line[at] === "\t") removed += 4 - (removed % 4);
    else break;
  }
  return " ".repeat(Math.max(0, removed - columns)) + line.slice(at);
}

function stripClosingHashes(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") end -= 1;
  if (end === text.length || (end > 0 && !/[ \t]/.test(text[end - 1] ?? ""))) return text;
  return text.slice(0, end).trimEnd();
}

function parseIndentedCode(lines: string[], at: number): ParsedBlock {
  let next = at;
  let end = at;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (isBlank(line)) continue;
    if (indentWidth(line) < 4) break;
    end = next + 1;
  }
  const text = lines.slice(at, end).map((line) => removeIndent(line, 4));
  return { block: { type: "code", lang: "", text: text.join("\n"), open: false }, next: end };
}

function parseFencedCode(lines: string[], at: number, fence: RegExpExecArray): ParsedBlock {
  const [, fenceMarks = "```", lang = ""] = fence;
  const indentOfFence = indentWidth(lines[at] ?? "");
  const isEnd = (line: string) => {
    const text = line.trim();
    return (
      text.length >= fenceMarks.length &&
      indentWidth(line) < 4 &&
      text === fenceMarks.charAt(0).repeat(text.length)
    );
  };
  let next = at + 1;
  while (next < lines.length && !isEnd(lines[next] ?? "")) next += 1;
  const text = lines
    .slice(at + 1, next)
    .map((line) => (indentOfFence ? removeIndent(line, indentOfFence) : line));
  const open = next >= lines.length;
  return { block: { type: "code", lang, text: text.join("\n"), open }, next: next + 1 };
}

function parseQuote(lines: string[], at: number, depth: number): ParsedBlock {
  const quoteLines: string[] = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (QUOTE.test(line)) quoteLines.push(line.replace(QUOTE, ""));
    else if (isBlank(line) || !continuesParagraph(stripMarkers(quoteLines.at(-1) ?? ""), line)) break;
    else quoteLines.push(line);
  }
  const quoted = parseLines(quoteLines, depth + 1).map(({ block }) => block);
  return { block: { type: "quote", blocks: quoted }, next };
}

/** Returns true if an unindented line continues the paragraph that ends with `last`. */
function continuesParagraph(last: string, line: string): boolean {
  return !isBlank(last) && !startsBlock(last, false) && !startsBlock(line, true);
}

/**
 * Returns true if the line starts a block that can interrupt a paragraph (`inside`), or any block but a
 * paragraph.
 */
function startsBlock(line: string, inside: boolean): boolean {
  if (FENCE.test(line) || RULE.test(line) || HEADING.test(line) || QUOTE.test(line)) return true;
  const marker = MARKER.exec(line);
  if (!marker || !inside) return false;
  // Inside a paragraph only a list that starts with 1 counts, because other numbers are usually prose.
  const hasText = !isBlank(line.slice(marker[0].length));
  return hasText && (/^[-*+]$/.test(marker[2] ?? "") || /^1[.)]$/.test(marker[2] ?? ""));
}

function parseList(lines: string[], at: number, depth: number): ParsedBlock {
  const first = MARKER.exec(lines[at] ?? "");
  const kind = first?.[2]?.slice(-1);
  const items: ListItem[] = [];
  let loose = false;
  let next = at;
  while (next < lines.length) {
    const line = lines[next] ?? "";
    const marker = MARKER.exec(line);
    if (marker?.[2]?.slice(-1) !== kind || RULE.test(line)) break;
    const itemLines = parseItem(lines, next, marker?.[0].length ?? 0);
    const inside = parseLines(itemLines.inside, depth + 1);
    items.push(parseTask(inside.map(({ block }) => block)));
    // A list is loose if blank lines separate any of its parts.
    loose ||= inside.some(({ line }) => line > 0 && isBlank(itemLines.inside[line - 1]));
    let after = itemLines.next;
    while (after < lines.length && isBlank(lines[after])) after += 1;
    const hasNextItem =
      MARKER.exec(lines[after] ?? "")?.[2]?.slice(-1) === kind && !RULE.test(lines[after] ?? "");
    next = hasNextItem ? after : itemLines.next;
    if (!hasNextItem) break;
    loose ||= after > itemLines.next;
  }
  const number = Number.parseInt(first?.[2] ?? "", 10);
  return { block: { type: "list", first: Number.isNaN(number) ? null : number, loose, items }, next };
}

/** Parses one list item and removes the indentation of its content. */
function parseItem(lines: string[], at: number, marker: number): { inside: string[]; next: number } {
  const rest = (lines[at] ?? "").slice(marker);
  const blanks = indentWidth(rest);
  const contentIndent = isBlank(rest) || blanks > 4 ? marker + 1 : marker + blanks;
  const inside = [isBlank(rest) ? "" : removeIndent(rest, contentIndent - marker)];
  let fence = FENCE.exec(inside[0] ?? "")?.[1] ?? null;
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (isBlank(line)) {
      // An item that starts with a blank line is empty.
      if (next === at + 1 && isBlank(rest)) break;
      inside.push("");
      continue;
    }
    if (indentWidth(line) >= contentIndent) inside.push(removeIndent(line, contentIndent));
    else if (fence || !continuesParagraph(stripMarkers(inside.at(-1) ?? ""), line) || MARKER.test(line))
      break;
    else inside.push(line.trimStart());
    const marks = FENCE.exec(inside.at(-1) ?? "")?.[1];
    if (marks) fence = fence && marks.startsWith(fence) ? null : (fence ?? marks);
  }
  while (inside.length > 1 && isBlank(inside.at(-1))) {
    inside.pop();
    next -= 1;
  }
  return { inside, next };
}

/** Removes the markers of all containers from a line. */
function stripMarkers(line: string): string {
  let text = line;
  for (let depth = 0; depth < DEPTH_MAX; depth += 1) {
    const inner = text.trimStart().replace(MARKER, "").replace(QUOTE, "").trimStart();
    if (inner === text) break;
    text = inner;
  }
  return text;
}

function parseTask(inside: Block[]): ListItem {
  const first = inside[0];
  const blocks = first?.type === "paragraph" ? TASK.exec(first.text) : null;
  if (!blocks || first?.type !== "paragraph") return { done: null, blocks: inside };
  const text = { ...first, text: first.text.slice(blocks[0].length) };
  return { done: blocks[1] !== " ", blocks: [text, ...inside.slice(1)] };
}

function parseTable(lines: string[], at: number): ParsedBlock | null {
  const head = tableHeadAt(lines, at);
  if (!head) return null;
  const align = splitCells(lines[at + 1] ?? "").map((cell): Align => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : left ? "left" : null;
  });
  const rows: string[][] = [];
  let next = at + 2;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (isBlank(line) || startsBlock(line, true)) break;
    const row = splitCells(line);
    rows.push(head.map((_, column) => row[column] ?? ""));
  }
  return { block: { type: "table", align, head, rows }, next };
}

/** Returns the cells of the table head that starts at this line, or null. */
function tableHeadAt(lines: string[], at: number): string[] | null {
  const [line = "", below = ""] = [lines[at], lines[at + 1]];
  if (!line.includes("|") || !below.includes("-") || !/[|:]/.test(below) || !DELIMITERS.test(below))
    return null;
  const head = splitCells(line);
  return head.length <= COLUMNS_MAX && head.length === splitCells(below).length ? head : null;
}

function splitCells(line: string): string[] {
  const found: string[] = [];
  const text = line.trim();
  let cell = "";
  for (let at = text.startsWith("|") ? 1 : 0; at < text.length; at += 1) {
    if (text[at] === "\\" && text[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (text[at] === "|") {
      found.push(cell.trim());
      cell = "";
    } else cell += text[at];
  }
  if (cell.trim() || !text.endsWith("|")) found.push(cell.trim());
  return found;
}

function parseParagraph(lines: string[], at: number): ParsedBlock {
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    const underline = UNDERLINE.exec(line);
    if (underline) {
      const depth = underline[1]?.startsWith("=") ? 1 : 2;
      return { block: { type: "heading", depth, text: joinLines(lines.slice(at, next)) }, next: next + 1 };
    }
    if (isBlank(line) || startsBlock(line, true) || tableHeadAt(lines, next)) break;
  }
  return { block: { type: "paragraph", text: joinLines(lines.slice(at, next)) }, next };
}

const joinLines = (lines: string[]) =>
  lines
    .map((line) => line.trimStart())
    .join("\n")
    .trimEnd();
