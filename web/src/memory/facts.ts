// The logic of the review of proposed facts: the list across reloads, the focus and the messages. Pure.
import type { FactState, ProposedFact } from "./reviewApi";

type FactId = Pick<ProposedFact, "fact_id">;

/**
 * Returns the loaded facts, with the shown ones that have unsaved edits and were decided elsewhere in their old positions,
 * so that no typed text is lost.
 */
export function mergeFacts<T extends FactId>(
  shown: readonly T[],
  loaded: readonly T[],
  edits: Readonly<Record<string, string>>,
): T[] {
  const merged = [...loaded];
  const indexOf = (fact: T | undefined) => merged.findIndex((other) => other.fact_id === fact?.fact_id);
  shown.forEach((fact, index) => {
    if (edits[fact.fact_id] !== undefined && indexOf(fact) < 0)
      merged.splice(indexOf(shown[index - 1]) + 1, 0, fact);
  });
  return merged;
}

/** Returns the id of the fact to focus after a decision: the nearest one that is left, preferably a later one. */
export function nextFact(
  before: readonly FactId[],
  after: readonly FactId[],
  decided: string,
): string | null {
  const at = before.findIndex((fact) => fact.fact_id === decided);
  const candidates = [...before.slice(at + 1), ...before.slice(0, Math.max(0, at)).reverse(), ...after];
  return candidates.find(({ fact_id }) => after.some((fact) => fact.fact_id === fact_id))?.fact_id ?? null;
}

/** Returns the message about a decision that the server refused because of the fact's state; null if it is unknown. */
export function refusalMessage(state: FactState | null): string {
  switch (state) {
    case "accepted":
    case "declined":
      return `This fact was ${state} elsewhere.`;
    case "edited":
      return "This fact was edited and accepted elsewhere.";
    case "superseded":
      return "This fact was accepted elsewhere, and a later fact replaced it.";
    case "proposed":
      return "Other facts were decided at the same time. Try again.";
    case null:
      return "This fact no longer exists.";
  }
}
