// Converts terminal output to plain text: removes escape sequences and cuts long texts.

// An unterminated sequence only loses its introducer.
const SEQUENCE =
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]/g;

/** Removes escape sequences. Of an overwritten line, only the last version is kept. */
export function stripEscapeCodes(text: string): string {
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

/** Returns the number of lines; a newline at the end does not start another one. */
export function lineCount(text: string): number {
  if (!text) return 0;
  let count = text.endsWith("\n") ? 0 : 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** Returns the start of the text, limited in lines and characters. */
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
  let start = end;
  for (let line = 0; line < lines && start > 0; line += 1) start = text.lastIndexOf("\n", start - 1);
  return text.slice(Math.max(start + 1, end - chars, 0), end);
}
