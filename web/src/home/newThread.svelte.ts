// Starting a new thread. A thread is created with its first message, so that there are no empty threads.
import { layout } from "../app/layout.svelte";
import { navigate, paths } from "../app/router.svelte";

/** Set to focus the new-thread form on the home page. */
export const newThreadForm = $state({ isFocusRequested: false });

/** Opens the new-thread form on the home page. */
export function openNewThread(): void {
  newThreadForm.isFocusRequested = true;
  layout.close();
  navigate(paths.home());
}
