// The key handling of an approval. A letter selects an answer and Enter confirms it; the letters of a typed
// word select nothing. The terminal follows the same rules. The panel moves the focus.

export type AnswerKeyState =
  | { kind: "none" }
  /** A letter selected an answer, but may turn out to be the start of a word. */
  | { kind: "marked"; letter: string; at: number }
  /** A word or a line is being typed. */
  | { kind: "typing" };

export const IDLE: AnswerKeyState = { kind: "none" };

/** Returns the state after a character key, Enter or Escape; `letters` are the keys of the answers. */
export function nextKeyState(state: AnswerKeyState, key: string, letters: readonly string[]): AnswerKeyState {
  if (key === "Enter" || key === "Escape") return IDLE;
  if (state.kind === "typing") return state;
  const letter = key.toLowerCase();
  const at = letters.indexOf(letter);
  if (state.kind === "marked") return letter === state.letter || key === " " ? state : { kind: "typing" };
  if (key === " ") return state;
  return at < 0 ? { kind: "typing" } : { kind: "marked", letter, at };
}
