// The blocks of Markdown: paragraphs, headings, lists, tables, quotes, code. CommonMark and GitHub's tables and tasks, as far as
// answers use them; HTML is text. Every line is looked at a bounded number of times, whatever a model wrote. What stands inside a
// line is `inlines.ts`.

export type Align = "left" | "center" | "right" | null;
export interface ListItem {
  /** Whether a task is done; null for what is no task. */
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

/** A block and the line it begins in. */
export interface Placed {
  block: Block;
  line: number;
}

/** How deep quotes and lists stand in one another; deeper ones are text. */
const DEPTH_MAX = 12;
/** Columns that a table has at most; wider ones are text. */
const COLUMNS_MAX = 60;

const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s`]*)/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const UNDERLINE = /^ {0,3}(=+|-+)[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const MARKER = /^( {0,3})([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const TASK = /^\[([ xX])\][ \t]+(?=\S)/;

/** Returns the blocks of the text. */
export function blocks(text: string): Block[] {
  return placed(text.split(/\r?\n/)).map(({ block }) => block);
}

/** Returns the blocks of the lines, each with the line it begins in. */
export function placed(lines: string[], depth = 0): Placed[] {
  const found: Placed[] = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    const { block, next } = blockAt(lines, at, depth);
    found.push({ block, line: at });
    at = next;
  }
  return found;
}

interface Read {
  block: Block;
  /** The line behind it. */
  next: number;
}

function blockAt(lines: string[], at: number, depth: number): Read {
  const line = lines[at] ?? "";
  const nests = depth < DEPTH_MAX;
  if (indent(line) >= 4) return indentedCode(lines, at);
  const fence = FENCE.exec(line);
  if (fence) return fencedCode(lines, at, fence);
  if (RULE.test(line)) return { block: { type: "rule" }, next: at + 1 };
  const heading = HEADING.exec(line);
  if (heading) {
    const text = withoutClosing(line.slice(heading[0].length).trim());
    return { block: { type: "heading", depth: heading[1]?.length ?? 1, text }, next: at + 1 };
  }
  if (nests && QUOTE.test(line)) return quote(lines, at, depth);
  if (nests && MARKER.test(line)) return list(lines, at, depth);
  return table(lines, at) ?? paragraph(lines, at);
}

const isBlank = (line: string | undefined) => line === undefined || /^\s*$/.test(line);

/** Columns of white space at the beginning; a tab ends at a multiple of four. */
function indent(line: string): number {
  let columns = 0;
  for (const char of line) {
    if (char === " ") columns += 1;
    else if (char === "\t") columns += 4 - (columns % 4);
    else break;
  }
  return columns;
}

/** Takes so many columns of white space away, as far as there are any. */
function outdented(line: string, columns: number): string {
  let taken = 0;
  let at = 0;
  for (; at < line.length && taken < columns; at += 1) {
    if (line[at] === " ") taken += 1;
    else if (line[at] === "\t") taken += 4 - (taken % 4);
    else break;
  }
  return " ".repeat(Math.max(0, taken - columns)) + line.slice(at);
}

function withoutClosing(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "#") end -= 1;
  if (end === text.length || (end > 0 && !/[ \t]/.test(text[end - 1] ?? ""))) return text;
  return text.slice(0, end).trimEnd();
}

function indentedCode(lines: string[], at: number): Read {
  let next = at;
  let end = at;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (isBlank(line)) continue;
    if (indent(line) < 4) break;
    end = next + 1;
  }
  const text = lines.slice(at, end).map((line) => outdented(line, 4));
  return { block: { type: "code", lang: "", text: text.join("\n"), open: false }, next: end };
}

function fencedCode(lines: string[], at: number, fence: RegExpExecArray): Read {
  const [, marks = "```", lang = ""] = fence;
  const inside = indent(lines[at] ?? "");
  const isEnd = (line: string) => {
    const text = line.trim();
    return text.length >= marks.length && indent(line) < 4 && text === marks.charAt(0).repeat(text.length);
  };
  let next = at + 1;
  while (next < lines.length && !isEnd(lines[next] ?? "")) next += 1;
  const text = lines.slice(at + 1, next).map((line) => (inside ? outdented(line, inside) : line));
  const open = next >= lines.length;
  return { block: { type: "code", lang, text: text.join("\n"), open }, next: next + 1 };
}

function quote(lines: string[], at: number, depth: number): Read {
  const inside: string[] = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (QUOTE.test(line)) inside.push(line.replace(QUOTE, ""));
    else if (isBlank(line) || !goesOn(unmarked(inside.at(-1) ?? ""), line)) break;
    else inside.push(line);
  }
  const quoted = placed(inside, depth + 1).map(({ block }) => block);
  return { block: { type: "quote", blocks: quoted }, next };
}

/** Whether a line that is in no container goes on with the paragraph whose last line is given. */
function goesOn(last: string, line: string): boolean {
  return !isBlank(last) && !begins(last, false) && !begins(line, true);
}

/** Whether the line begins something that ends a paragraph (`inside` one) or is none. */
function begins(line: string, inside: boolean): boolean {
  if (FENCE.test(line) || RULE.test(line) || HEADING.test(line) || QUOTE.test(line)) return true;
  const marker = MARKER.exec(line);
  if (!marker || !inside) return false;
  // A number in running text is rarely a list, unless it is the first.
  const hasText = !isBlank(line.slice(marker[0].length));
  return hasText && (/^[-*+]$/.test(marker[2] ?? "") || /^1[.)]$/.test(marker[2] ?? ""));
}

function list(lines: string[], at: number, depth: number): Read {
  const first = MARKER.exec(lines[at] ?? "");
  const kind = first?.[2]?.slice(-1);
  const items: ListItem[] = [];
  let loose = false;
  let next = at;
  while (next < lines.length) {
    const line = lines[next] ?? "";
    const marker = MARKER.exec(line);
    if (marker?.[2]?.slice(-1) !== kind || RULE.test(line)) break;
    const read = item(lines, next, marker?.[0].length ?? 0);
    const inside = placed(read.inside, depth + 1);
    items.push(task(inside.map(({ block }) => block)));
    // Blank lines between two things of the list set all of it apart.
    loose ||= inside.some(({ line }) => line > 0 && isBlank(read.inside[line - 1]));
    let after = read.next;
    while (after < lines.length && isBlank(lines[after])) after += 1;
    const goes = MARKER.exec(lines[after] ?? "")?.[2]?.slice(-1) === kind && !RULE.test(lines[after] ?? "");
    next = goes ? after : read.next;
    if (!goes) break;
    loose ||= after > read.next;
  }
  const number = Number.parseInt(first?.[2] ?? "", 10);
  return { block: { type: "list", first: Number.isNaN(number) ? null : number, loose, items }, next };
}

/** Reads one item: its lines without the indent that makes them its own. */
function item(lines: string[], at: number, marker: number): { inside: string[]; next: number } {
  const rest = (lines[at] ?? "").slice(marker);
  const blanks = indent(rest);
  const own = isBlank(rest) || blanks > 4 ? marker + 1 : marker + blanks;
  const inside = [isBlank(rest) ? "" : outdented(rest, own - marker)];
  let fence = FENCE.exec(inside[0] ?? "")?.[1] ?? null;
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (isBlank(line)) {
      // An item that begins with a blank line holds nothing behind it.
      if (next === at + 1 && isBlank(rest)) break;
      inside.push("");
      continue;
    }
    if (indent(line) >= own) inside.push(outdented(line, own));
    else if (fence || !goesOn(unmarked(inside.at(-1) ?? ""), line) || MARKER.test(line)) break;
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

/** A line as the paragraph in the innermost container sees it. */
function unmarked(line: string): string {
  let text = line;
  for (let depth = 0; depth < DEPTH_MAX; depth += 1) {
    const inner = text.trimStart().replace(MARKER, "").replace(QUOTE, "").trimStart();
    if (inner === text) break;
    text = inner;
  }
  return text;
}

function task(inside: Block[]): ListItem {
  const first = inside[0];
  const found = first?.type === "paragraph" ? TASK.exec(first.text) : null;
  if (!found || first?.type !== "paragraph") return { done: null, blocks: inside };
  const text = { ...first, text: first.text.slice(found[0].length) };
  return { done: found[1] !== " ", blocks: [text, ...inside.slice(1)] };
}

function table(lines: string[], at: number): Read | null {
  const head = headAt(lines, at);
  if (!head) return null;
  const align = cells(lines[at + 1] ?? "").map((cell): Align => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : left ? "left" : null;
  });
  const rows: string[][] = [];
  let next = at + 2;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (isBlank(line) || begins(line, true)) break;
    const row = cells(line);
    rows.push(head.map((_, column) => row[column] ?? ""));
  }
  return { block: { type: "table", align, head, rows }, next };
}

/** The cells of a table's head, when one begins in this line. */
function headAt(lines: string[], at: number): string[] | null {
  const [line = "", below = ""] = [lines[at], lines[at + 1]];
  if (!line.includes("|") || !below.includes("-") || !/[|:]/.test(below) || !DELIMITERS.test(below))
    return null;
  const head = cells(line);
  return head.length <= COLUMNS_MAX && head.length === cells(below).length ? head : null;
}

function cells(line: string): string[] {
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

function paragraph(lines: string[], at: number): Read {
  let next = at + 1;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    const underline = UNDERLINE.exec(line);
    if (underline) {
      const depth = underline[1]?.startsWith("=") ? 1 : 2;
      return { block: { type: "heading", depth, text: joined(lines.slice(at, next)) }, next: next + 1 };
    }
    if (isBlank(line) || begins(line, true) || headAt(lines, next)) break;
  }
  return { block: { type: "paragraph", text: joined(lines.slice(at, next)) }, next };
}

const joined = (lines: string[]) =>
  lines
    .map((line) => line.trimStart())
    .join("\n")
    .trimEnd();
