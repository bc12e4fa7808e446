// Keyboard shortcuts: components register theirs while they are mounted, and `?` lists them. Shortcuts
// without a modifier are ignored in text fields.
import { untrack } from "svelte";

export interface Shortcut {
  /** The key sequence: `?`, `g t`, `j`, `Escape`, `Mod+Enter` (Ctrl, or ⌘ on a Mac). */
  keys: string;
  /** A short description. */
  description: string;
  /** The heading in the keyboard help. */
  group: string;
  run: (event: KeyboardEvent) => void;
}

class ShortcutRegistry {
  // Raw state, because entries are removed by identity.
  entries = $state.raw<Shortcut[]>([]);
}

export const shortcuts = new ShortcutRegistry();

/** Registers shortcuts and returns a function that removes them, for use in `$effect`. */
export function registerShortcuts(entries: Shortcut[]): () => void {
  // Registering must not make the calling effect depend on the other entries.
  untrack(() => (shortcuts.entries = [...shortcuts.entries, ...entries]));
  return () => {
    shortcuts.entries = shortcuts.entries.filter((shortcut) => !entries.includes(shortcut));
  };
}

const isMac = navigator.platform.startsWith("Mac");
/** The maximum time between the two keys of a sequence such as `g t`, in milliseconds. */
const SEQUENCE_MS = 1_000;
let pendingKey: { key: string; at: number } | null = null;

function keyName(event: KeyboardEvent): string {
  const isMod = isMac ? event.metaKey : event.ctrlKey;
  return `${isMod ? "Mod+" : ""}${event.altKey ? "Alt+" : ""}${event.key}`;
}

/** Inputs that take no text, so shortcuts stay active in them. */
const NON_TEXT_INPUTS = ["radio", "checkbox", "range", "file", "button"];

function isTextInput(target: EventTarget | null): boolean {
  if (target instanceof HTMLInputElement && NON_TEXT_INPUTS.includes(target.type)) return false;
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

/** Runs the newest shortcut that matches the pressed key. */
export function handleKeydown(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing) return;
  const key = keyName(event);
  if (isTextInput(event.target) && !key.startsWith("Mod+") && key !== "Escape") return;
  const sequence =
    pendingKey && event.timeStamp - pendingKey.at < SEQUENCE_MS ? `${pendingKey.key} ${key}` : null;
  const findShortcut = (keys: string | null) =>
    shortcuts.entries.findLast((shortcut) => shortcut.keys === keys);
  const found = findShortcut(sequence) ?? findShortcut(key);
  pendingKey = found ? null : { key, at: event.timeStamp };
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

/** Returns the labels of the keys of a shortcut. */
export function keyLabels(keys: string): string[] {
  return keys.split(" ").map((key) => key.replace("Mod+", isMac ? "⌘ " : "Ctrl ").replace("Escape", "Esc"));
}
