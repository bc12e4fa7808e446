// Browser storage: per tab or per browser. If the storage is blocked or full, texts are held in memory until
// the page is reloaded.
export type StorageScope = "tab" | "browser";

const fallback = new Map<string, string>();
const storage = (scope: StorageScope) => (scope === "tab" ? sessionStorage : localStorage);

/** Stores a text under a name; `null` removes it. */
export function storeText(scope: StorageScope, name: string, text: string | null): void {
  fallback.delete(name);
  try {
    // The previous text is removed first: if the new one does not fit, the old one must not reappear.
    storage(scope).removeItem(name);
    if (text !== null) storage(scope).setItem(name, text);
  } catch {
    if (text !== null) fallback.set(name, text);
  }
}

/** Returns the text that is stored under a name. */
export function loadText(scope: StorageScope, name: string): string | null {
  const text = fallback.get(name);
  if (text !== undefined) return text;
  try {
    return storage(scope).getItem(name);
  } catch {
    return null;
  }
}
