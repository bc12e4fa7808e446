// Where links may lead: to pages and mail, and nowhere else.

export interface Target {
  href: string;
  /** What a reader has to know of where it leads: the host, or the address. */
  host: string;
}

const LENGTH_MAX = 4_000;

/** Returns where an address leads; null for one that is shown and not followed. */
export function target(address: string): Target | null {
  const plain = address.trim();
  // A browser would leave such characters out, and read another address than the one that is shown.
  if (!/^(?:https?|mailto):/i.test(plain) || plain.length > LENGTH_MAX || /[\x00-\x20\x7f]/.test(plain))
    return null;
  if (!URL.canParse(plain)) return null;
  const url = new URL(plain);
  if (url.protocol === "mailto:") return { href: url.href, host: url.pathname };
  return url.hostname ? { href: url.href, host: url.host } : null;
}

/** Whether a link's text itself says where it leads. */
export function says(text: string, { href, host }: Target): boolean {
  const same = (url: string) => url.replace(/^https?:\/\/|\/$|^mailto:/g, "");
  return same(text.trim()) === same(href) || text.trim() === host;
}
