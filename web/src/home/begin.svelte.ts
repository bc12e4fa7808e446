// Beginning a thread: there is none before its first message, so that nobody's list fills with empty ones.
import { layout } from "../app/layout.svelte";
import { go, to } from "../app/router.svelte";

/** Whether somebody wants to write the first message; the composer of the beginning takes it. */
export const begin = $state({ isWanted: false });

/** Goes to where a thread begins, ready to write. */
export function newThread(): void {
  begin.isWanted = true;
  layout.close();
  go(to.home());
}
