// What a person typed and did not send, kept in this tab: a look at a message and back loses nothing.
const name = (handoff: string, what: string) => `segue.handoff.${handoff}.${what}`;

/** Keeps a value; `null` forgets it. */
export function keep(handoff: string, what: string, value: unknown): void {
  try {
    if (value === null || value === "") sessionStorage.removeItem(name(handoff, what));
    else sessionStorage.setItem(name(handoff, what), JSON.stringify(value));
  } catch {
    // A browser that keeps nothing still shows the page.
  }
}

export function kept<T>(handoff: string, what: string): T | null {
  try {
    const text = sessionStorage.getItem(name(handoff, what));
    return text === null ? null : (JSON.parse(text) as T);
  } catch {
    return null;
  }
}
