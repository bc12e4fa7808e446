// State shared by all thread lists: deleted threads, the thread that is being renamed, and a refresh signal.
import { SvelteSet } from "svelte/reactivity";

/** Threads that are deleted or about to be. Ids are never reused, so none is removed. */
export const deletedThreads = new SvelteSet<string>();

export const listState = $state<{
  /** The thread that is being renamed. */
  renaming: { id: string; title: string; name: string | null } | null;
  /** Incremented to refresh all lists. */
  revision: number;
}>({ renaming: null, revision: 0 });

/** Refreshes all thread lists. */
export function refreshLists(): void {
  listState.revision += 1;
}
