// The character references that answers use. Others are left as they are.
const NAMED: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  reg: "®",
  trade: "™",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  lsquo: "‘",
  rsquo: "’",
  ldquo: "“",
  rdquo: "”",
  laquo: "«",
  raquo: "»",
  bull: "•",
  middot: "·",
  times: "×",
  larr: "←",
  rarr: "→",
  le: "≤",
  ge: "≥",
  ne: "≠",
  deg: "°",
  euro: "€",
};

export const ENTITY = /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-zA-Z]{2,8}));/y;

/** Returns the character for a match of `ENTITY`, or null if it is unknown. */
export function decodeEntity([, decimal, hex, name]: RegExpExecArray): string | null {
  if (name) return Object.hasOwn(NAMED, name) ? (NAMED[name] ?? null) : null;
  const code = decimal ? Number(decimal) : Number.parseInt(hex ?? "", 16);
  const isInvalid = code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff);
  return isInvalid ? "\ufffd" : String.fromCodePoint(code);
}
