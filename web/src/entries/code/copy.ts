// Putting text into the clipboard, and saying so.
import { failed, notify } from "../../app/notices.svelte";

/** Copies the text; `what` says what it is, such as “the command”. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify(`Copied ${what}`);
  } catch (error) {
    failed(`Could not copy ${what}`, error);
  }
}
