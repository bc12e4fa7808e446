// What this browser keeps for the page: for as long as the tab is open, or beyond. A browser may keep nothing, or have no room left;
// then it is held here, for as long as the page is not loaded again.
export type Where = "tab" | "browser";

const held = new Map<string, string>();
const storage = (where: Where) => (where === "tab" ? sessionStorage : localStorage);

/** Keeps a text under a name; `null` forgets it. */
export function keepText(where: Where, name: string, text: string | null): void {
  held.delete(name);
  try {
    // What was kept before goes first: an old text must not come back in the place of one there was no room for.
    storage(where).removeItem(name);
    if (text !== null) storage(where).setItem(name, text);
  } catch {
    if (text !== null) held.set(name, text);
  }
}

/** Returns what was kept under a name. */
export function keptText(where: Where, name: string): string | null {
  const text = held.get(name);
  if (text !== undefined) return text;
  try {
    return storage(where).getItem(name);
  } catch {
    return null;
  }
}
