// Text that a person has to judge as it is: characters that reorder or hide others are told apart from those that are
// shown. It removes nothing and knows nothing of the screen; `Inert.svelte` draws it.

/** A stretch of text, or a character that would hide something, and how often it stands there in a row. */
export type Piece = { text: string } | { code: string; reorders: boolean; count: number };

/** The most hidden characters that are drawn one by one; the rest is written out in the text. */
const DRAWN_MAX = 300;

// The characters that the server writes out in a question, for the same reasons; a return before a newline is a line end.
const BIDI = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069";
const INVISIBLE =
  "\\u00ad\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200c\\u2028\\u2029\\u2060-\\u2065\\u206a-\\u206f\\u3164" +
  "\\ufe00-\\ufe0e\\ufeff\\uffa0\\ufff0-\\ufffb\\u{e0000}-\\u{e0fff}";
const CONTROL = "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f";
// Between pictures, a joiner makes one picture of several.
const HIDDEN = new RegExp(
  `[${BIDI}${INVISIBLE}${CONTROL}]|\\r(?!\\n|$)|(?<![^\\x00-\\x7f\\p{L}\\p{N}])[\\u200d\\ufe0f]`,
  "gu",
);
const REORDERS = new RegExp(`[${BIDI}]`, "u");
const PLAIN = /^[\x20-\x7e\n\t]*$/;

/** Whether there is anything in the text that one could overlook. */
export function hides(text: string): boolean {
  if (PLAIN.test(text)) return false;
  // Unlike `test`, it leaves no place from which the next look at the text would begin.
  return text.search(HIDDEN) >= 0;
}

/** Whether the text holds overrides or embeddings of the writing direction, which no prose needs. */
export function reorders(text: string): boolean {
  return /[\u202a-\u202e]/.test(text);
}

/** `U+202E` */
function codePoint(char: string): string {
  return `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Returns the text in pieces. */
export function pieces(text: string): Piece[] {
  if (!hides(text)) return [{ text }];
  const found: Piece[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (found.length >= 2 * DRAWN_MAX) {
      found.push({ text: written(text.slice(from)) });
      return found;
    }
    const code = codePoint(match[0]);
    const last = found.at(-1);
    if (match.index > from) found.push({ text: text.slice(from, match.index) });
    else if (last && "code" in last && last.code === code) {
      last.count += 1;
      from = match.index + match[0].length;
      continue;
    }
    found.push({ code, reorders: REORDERS.test(match[0]), count: 1 });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}

/** Returns the text with what hides in it written out, for where only text can stand. */
export function written(text: string): string {
  return hides(text) ? text.replace(HIDDEN, (char) => `⟨${codePoint(char)}⟩`) : text;
}

/** Returns the text on one line, with what hides in it written out. */
export function oneLine(text: string, most = 300): string {
  const line = text
    .slice(0, 4 * most)
    .replace(/\s+/g, " ")
    .trim();
  return written(line.length > most ? `${line.slice(0, most)}…` : line);
}
