// Finds characters that reorder or hide text, so that a person can judge it as it is. It removes nothing and
// renders nothing; `InertText.svelte` does.

/** A run of plain text, or a hidden character with its number of repetitions. */
export type TextSegment = { text: string } | { code: string; reorders: boolean; count: number };

/**
 * The maximum number of hidden characters with an element of their own. The rest is escaped within the text.
 */
const SEGMENTS_MAX = 300;

// The same characters that the server escapes in questions. A CR before an LF is part of a line end.
const BIDI = "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069";
const INVISIBLE =
  "\\u00ad\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200c\\u2028\\u2029\\u2060-\\u2065\\u206a-\\u206f\\u3164" +
  "\\ufe00-\\ufe0e\\ufeff\\uffa0\\ufff0-\\ufffb\\u{e0000}-\\u{e0fff}";
const CONTROL = "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f";
// Between emoji, a joiner combines several into one.
const HIDDEN = new RegExp(
  `[${BIDI}${INVISIBLE}${CONTROL}]|\\r(?!\\n|$)|(?<![^\\x00-\\x7f\\p{L}\\p{N}])[\\u200d\\ufe0f]`,
  "gu",
);
const REORDERS = new RegExp(`[${BIDI}]`, "u");
const PLAIN = /^[\x20-\x7e\n\t]*$/;

/** Returns true if the text has characters that are not visible. */
export function hasHidden(text: string): boolean {
  if (PLAIN.test(text)) return false;
  // Unlike `test`, `search` does not change `lastIndex`, so calls are independent.
  return text.search(HIDDEN) >= 0;
}

/** Returns true if the text has directional overrides or embeddings, which prose does not need. */
export function hasBidiOverrides(text: string): boolean {
  return /[\u202a-\u202e]/.test(text);
}

/** Returns the notation of a code point, such as `U+202E`. */
function codePoint(char: string): string {
  return `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Splits the text into plain text and hidden characters. */
export function splitHidden(text: string): TextSegment[] {
  if (!hasHidden(text)) return [{ text }];
  const segments: TextSegment[] = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (segments.length >= 2 * SEGMENTS_MAX) {
      segments.push({ text: escapeHidden(text.slice(from)) });
      return segments;
    }
    const code = codePoint(match[0]);
    const last = segments.at(-1);
    if (match.index > from) segments.push({ text: text.slice(from, match.index) });
    else if (last && "code" in last && last.code === code) {
      last.count += 1;
      from = match.index + match[0].length;
      continue;
    }
    segments.push({ code, reorders: REORDERS.test(match[0]), count: 1 });
    from = match.index + match[0].length;
  }
  if (from < text.length) segments.push({ text: text.slice(from) });
  return segments;
}

/** Returns the text with hidden characters escaped, for places without elements. */
export function escapeHidden(text: string): string {
  return hasHidden(text) ? text.replace(HIDDEN, (char) => `⟨${codePoint(char)}⟩`) : text;
}

/** Returns the text on one line, with hidden characters escaped. */
export function oneLine(text: string, charsMax = 300): string {
  const line = text
    .slice(0, 4 * charsMax)
    .replace(/\s+/g, " ")
    .trim();
  return escapeHidden(line.length > charsMax ? `${line.slice(0, charsMax)}…` : line);
}
