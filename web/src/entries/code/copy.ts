// Copies text to the clipboard and shows a notice.
import { notifyError, notify } from "../../app/notices.svelte";

/** Copies the text; `label` names it in the notice, such as “the command”. */
export async function copyText(text: string, label: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify(`Copied ${label}`);
  } catch (error) {
    notifyError(`Could not copy ${label}`, error);
  }
}
