// Which answer a key marks. A letter only marks one and Enter confirms it; letters of a word that somebody goes on typing answer
// nothing. The terminal follows the same rules. What is marked has the focus; that is the panel's business.

export type Mark =
  | { is: "none" }
  /** An answer was marked by its letter, which may yet turn out to be the first of a word. */
  | { is: "marked"; letter: string; at: number }
  /** A word or a line is being typed. */
  | { is: "typing" };

export const NONE: Mark = { is: "none" };

/** Returns what a key that writes something, or Enter, means after `mark`; `letters` are those of the answers. */
export function pressed(mark: Mark, key: string, letters: readonly string[]): Mark {
  if (key === "Enter" || key === "Escape") return NONE;
  if (mark.is === "typing") return mark;
  const letter = key.toLowerCase();
  const at = letters.indexOf(letter);
  if (mark.is === "marked") return letter === mark.letter || key === " " ? mark : { is: "typing" };
  if (key === " ") return mark;
  return at < 0 ? { is: "typing" } : { is: "marked", letter, at };
}
