// What is going on with threads beyond one component: those that are as good as deleted, the one that is being named, and
// whether lists should look again.
import { SvelteSet } from "svelte/reactivity";

/** Threads that no list shows: deleted, or about to be. Ids are never used again, so nothing has to be taken out. */
export const gone = new SvelteSet<string>();

export const ongoing = $state<{
  /** The thread that a name is being asked for. */
  naming: { id: string; title: string; name: string | null } | null;
  /** Goes up when something was done that changes lists. */
  changes: number;
}>({ naming: null, changes: 0 });

/** Says that something was done which lists should show at once. */
export function changed(): void {
  ongoing.changes += 1;
}
