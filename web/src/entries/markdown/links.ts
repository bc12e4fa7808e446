// Link policy: only web and mail addresses can be followed.

export interface LinkTarget {
  href: string;
  /** The part of the target that is shown to the reader: the host or the mail address. */
  host: string;
}

const LENGTH_MAX = 4_000;

/** Returns the target of an address, or null if it must not be followed. */
export function linkTargetOf(address: string): LinkTarget | null {
  const plain = address.trim();
  // Browsers ignore such characters, so the followed address would differ from the shown one.
  if (!/^(?:https?|mailto):/i.test(plain) || plain.length > LENGTH_MAX || /[\x00-\x20\x7f]/.test(plain))
    return null;
  if (!URL.canParse(plain)) return null;
  const url = new URL(plain);
  if (url.protocol === "mailto:") return { href: url.href, host: url.pathname };
  return url.hostname ? { href: url.href, host: url.host } : null;
}

/** Returns true if the text of a link already shows its target. */
export function isSelfDescribing(text: string, { href, host }: LinkTarget): boolean {
  const stripScheme = (url: string) => url.replace(/^https?:\/\/|\/$|^mailto:/g, "");
  return stripScheme(text.trim()) === stripScheme(href) || text.trim() === host;
}
