// The last search, so that returning from a hit restores the list.
import type { SearchResults } from "../api/types";
import type { TimeRange } from "./hits";

export type HitKind = "message" | "summary" | "handoff" | "item";

export const filters = $state<{
  kinds: Record<HitKind, boolean>;
  since: TimeRange;
  limit: number;
}>({
  kinds: { message: true, summary: true, handoff: true, item: true },
  since: "ever",
  limit: 0,
});

/** The last results and the query they belong to. */
export const lastSearch: { key: string; results: SearchResults | null; openedHit: string | null } = {
  key: "",
  results: null,
  openedHit: null,
};
