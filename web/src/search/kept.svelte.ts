// What one looked for last, so that coming back from a hit shows the same list at the same place.
import type { SearchResults } from "../api/types";
import type { Since } from "./places";

export type Kind = "message" | "summary" | "handoff" | "item";

export const kept = $state<{
  kinds: Record<Kind, boolean>;
  since: Since;
  limit: number;
}>({
  kinds: { message: true, summary: true, handoff: true, item: true },
  since: "ever",
  limit: 0,
});

/** The last answer and the question it answers. */
export const last: { question: string; results: SearchResults | null; opened: string | null } = {
  question: "",
  results: null,
  opened: null,
};
