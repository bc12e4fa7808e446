// What programs print, as text for a page: without the codes that colour a terminal or move its cursor, and not longer
// than a person reads at once.

// A sequence that nothing ends loses its introducer only.
const SEQUENCE =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]/g;

/** Returns the text without escape sequences; of a line that was overwritten, what was written last. */
export function printed(text: string): string {
  const plain = text.includes("\x1b") || text.includes("\x9b") ? text.replace(SEQUENCE, "") : text;
  if (!plain.includes("\r")) return plain;
  return plain
    .split("\n")
    .map((line) => {
      const end = line.endsWith("\r") ? line.slice(0, -1) : line;
      return end.slice(end.lastIndexOf("\r") + 1);
    })
    .join("\n");
}

/** How many lines the text has; a newline at its end begins none. */
export function lineCount(text: string): number {
  if (!text) return 0;
  let count = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** Returns the beginning of the text, at most so many lines and characters of it. */
export function head(text: string, lines: number, chars: number): string {
  let end = -1;
  for (let line = 0; line < lines; line += 1) {
    const next = text.indexOf("\n", end + 1);
    if (next < 0) return text.slice(0, chars);
    end = next;
  }
  return text.slice(0, Math.min(end, chars));
}

/** Returns the last lines of the text. */
export function tail(text: string, lines: number, chars: number): string {
  const end = text.endsWith("\n") ? text.length - 1 : text.length;
  let begin = end;
  for (let line = 0; line < lines && begin > 0; line += 1) begin = text.lastIndexOf("\n", begin - 1);
  return text.slice(Math.max(begin + 1, end - chars, 0), end);
}
