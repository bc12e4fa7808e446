// Characters that reorder, hide or act, written out. Pure.

/** Controls but tab and line ends, zero-width and bidirectional characters, tags, the byte order mark. */
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/gu;

export interface Part {
  text: string;
  isHidden: boolean;
}

/** Splits a text into what can be seen and the names of what cannot. */
export function visible(text: string): Part[] {
  const parts: Part[] = [];
  let from = 0;
  for (const found of text.matchAll(HIDDEN)) {
    if (found.index > from) parts.push({ text: text.slice(from, found.index), isHidden: false });
    const code = (found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    parts.push({ text: `U+${code}`, isHidden: true });
    from = found.index + found[0].length;
  }
  if (from < text.length) parts.push({ text: text.slice(from), isHidden: false });
  return parts;
}
