// The keys of the page: components say which they answer while they are there, and `?` shows them all. Keys without a
// modifier are the text's own while one writes.
import { untrack } from "svelte";

export interface Shortcut {
  /** As it is shown and matched: `?`, `g t`, `j`, `Escape`, `Mod+Enter` (Ctrl, or ⌘ on a Mac). */
  keys: string;
  /** What it does, in a few words. */
  does: string;
  /** The heading it stands under. */
  group: string;
  run: (event: KeyboardEvent) => void;
}

class Known {
  // Raw, so that what was added is found again by identity.
  known = $state.raw<Shortcut[]>([]);
}

export const shortcuts = new Known();

/** Registers keys and returns what takes them back: made for `$effect`. */
export function register(added: Shortcut[]): () => void {
  // An effect that registers must not run again because others do.
  untrack(() => (shortcuts.known = [...shortcuts.known, ...added]));
  return () => {
    shortcuts.known = shortcuts.known.filter((shortcut) => !added.includes(shortcut));
  };
}

const isMac = navigator.platform.startsWith("Mac");
/** Milliseconds within which the second key of a pair such as `g t` follows the first. */
const PAIR_MS = 1_000;
let first: { key: string; at: number } | null = null;

function named(event: KeyboardEvent): string {
  const isMod = isMac ? event.metaKey : event.ctrlKey;
  return `${isMod ? "Mod+" : ""}${event.altKey ? "Alt+" : ""}${event.key}`;
}

/** What is chosen or ticked takes no text, so the keys of the page go on there. */
const CHOSEN = ["radio", "checkbox", "range", "file", "button"];

function isWriting(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement && CHOSEN.includes(target.type)) return false;
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

/** Does what the newest registration of the pressed keys says. */
export function pressed(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const key = named(event);
  if (isWriting(event.target) && !key.startsWith("Mod+") && key !== "Escape") return;
  const pair = first && event.timeStamp - first.at < PAIR_MS ? `${first.key} ${key}` : null;
  const find = (keys: string | null) => shortcuts.known.findLast((shortcut) => shortcut.keys === keys);
  const found = find(pair) ?? find(key);
  first = found ? null : { key, at: event.timeStamp };
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

/** How keys are written on the screen. */
export function shown(keys: string): string[] {
  return keys.split(" ").map((key) => key.replace("Mod+", isMac ? "⌘ " : "Ctrl ").replace("Escape", "Esc"));
}
