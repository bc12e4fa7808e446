// The Markdown of a package: its sections with the lines of each entry, and its escapes. Pure.
import { SUMMARY_KINDS } from "./review";

/** An entry of a section. */
export interface TextEntry {
  /** The text without bullet, indentation and escapes. */
  text: string;
  /** The lines of the Markdown, with the blank lines above them. */
  lines: string[];
}

/** A section of the Markdown. */
export interface TextSection {
  /** The text of the heading line. */
  heading: string;
  /** True for facts that are carried over, false for items of the summary. */
  isFact: boolean;
  /** The blank lines above the heading, and the heading line. */
  headingLines: string[];
  /** Each entry of facts, or each line of items. */
  entries: TextEntry[];
}

/** The lines of a package. */
export interface PackageText {
  /** The lines above the first heading: the title and the TL;DR. */
  head: string[];
  sections: TextSection[];
  /** The blank lines at the end. */
  end: string[];
}

/** The mark of unverified texts at the end of a line, which the server writes and parses. */
export const UNVERIFIED = " (unverified)";
/** The beginning of a heading line. */
export const HEADING = "### ";
const BULLET = /^[-*+](?:\s|$)/;
/** The indentation of the lines of an entry after the first: a request or a pin may have several lines. */
const CONTINUATION = "  ";
/** The start of a line in which a backslash keeps Markdown from reading a heading, a list or another block. */
const ESCAPED_START = /^(?:(\d+)(?=\\+[.)])|(?=\\+[#><|~[\-*+_=]))\\/;

/** Splits the Markdown of a package into its parts. All lines together are the text again. */
export function parsePackage(markdown: string): PackageText {
  const text: PackageText = { head: [], sections: [], end: [] };
  let section: TextSection | null = null;
  let blankLines: string[] = [];
  for (const line of markdown.split("\n")) {
    if (line.trim() === "") {
      blankLines.push(line);
      continue;
    }
    const entry = section?.entries.at(-1);
    // The first line is the title, even if its text is that of a heading.
    const found = text.head.length > 0 || line.startsWith(HEADING) ? parseHeading(line) : null;
    if (found) {
      section = { ...found, headingLines: [...blankLines, line], entries: [] };
      text.sections.push(section);
    } else if (!section) {
      text.head.push(...blankLines, line);
    } else if (section.isFact && entry && line.startsWith(CONTINUATION)) {
      entry.lines.push(...blankLines, line);
      entry.text += "\n".repeat(blankLines.length + 1) + unescapeTags(line.slice(CONTINUATION.length));
    } else {
      section.entries.push({ text: lineText(line), lines: [...blankLines, line] });
    }
    blankLines = [];
  }
  text.end = blankLines;
  return text;
}

/**
 * Returns the heading of a line, or null. As on the server, the number of signs, the case, a colon and the plural do not
 * matter, and a heading of items may be bold.
 */
function parseHeading(line: string): Pick<TextSection, "heading" | "isFact"> | null {
  const isMarked = /^#+(?:\s|$)/.test(line);
  if (!isMarked && !/^\*\*.*\*\*\s*$/.test(line)) return null;
  const heading = line.replace(/^[#*:\s]+|[#*:\s]+$/g, "");
  const nameOf = (text: string) => text.toLowerCase().replace(/s$/, "");
  const kind = SUMMARY_KINDS.find((known) => nameOf(known.heading) === nameOf(heading));
  if (kind) return { heading: kind.heading, isFact: false };
  return isMarked ? { heading, isFact: true } : null;
}

/** Returns the text of a line without its bullet and its escapes. A mark stays. */
function lineText(line: string): string {
  return unescapeLine(isBullet(line) ? line.slice(2) : line);
}

/** Reverses the escapes of a line. */
export function unescapeLine(line: string): string {
  return unescapeTags(line.replace(ESCAPED_START, "$1"));
}

export function isBullet(line: string): boolean {
  return BULLET.test(line);
}

/** Reverses the escape of `<`, by which the server keeps a text from being read as a tag. */
export function unescapeTags(text: string): string {
  return text.replaceAll("&lt;", "<");
}

/** Returns a text of one line with the escapes that the server needs to read it as it is. */
export function escapeLine(text: string): string {
  const line = normalizeLine(text);
  return line.startsWith("~~~") ? `\\${line}` : escapeStart(line);
}

/** Returns a text on one line and without code fences, as the server does it. */
export function normalizeLine(text: string): string {
  return text.replace(/\s+/g, " ").trim().replace(/`{3,}/g, "`");
}

/** Escapes a start that looks escaped already. */
function escapeStart(line: string): string {
  const digits = /^\d*/.exec(line)?.[0].length ?? 0;
  return ESCAPED_START.test(line) ? `${line.slice(0, digits)}\\${line.slice(digits)}` : line;
}

/** Returns a text as the lines of an entry: a bullet, and the further lines with their indentation. */
export function entryLines(text: string): string[] {
  const [first = "", ...others] = text.split("\n");
  // A first line of several may be the fence of a code block.
  const bullet = `- ${others.length > 0 ? escapeStart(first) : escapeLine(first)}`;
  return [bullet, ...others.map((line) => line && `${CONTINUATION}${line}`)];
}

/** A section of facts in the Markdown of a proposal. */
export interface FactSection {
  heading: string;
  entries: string[];
}

/** Returns the sections of the Markdown behind the items: the goal and the facts that are carried over. */
export function factSections(markdown: string): FactSection[] {
  return parsePackage(markdown)
    .sections.filter(({ isFact }) => isFact)
    .map(({ heading, entries }) => ({ heading, entries: entries.map(({ text }) => text) }));
}
