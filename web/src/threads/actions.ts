// What can be done with a thread, from the list and from its own page. Each says what it did and why it failed; where one
// goes afterwards is part of it.
import { failed, notify } from "../app/notices.svelte";
import { go, router, to } from "../app/router.svelte";
import { api } from "../api/endpoints";

/** Makes a thread and goes there. Returns its id, or nothing when that failed. */
export async function createThread(): Promise<string | null> {
  try {
    const { thread_id } = await api.createThread();
    go(to.thread(thread_id));
    return thread_id;
  } catch (error) {
    failed("The thread was not created", error);
    return null;
  }
}

/** Gives a thread a name. Returns whether it has it. */
export async function renameThread(id: string, name: string): Promise<boolean> {
  try {
    await api.renameThread(id, name);
    return true;
  } catch (error) {
    failed("The thread was not renamed", error);
    return false;
  }
}

/** Copies a thread, up to a position or whole, and goes to the copy. Returns its id. */
export async function forkThread(id: string, keepSeq?: number): Promise<string | null> {
  try {
    const fork = await api.forkThread(id, keepSeq);
    go(to.thread(fork.thread_id));
    return fork.thread_id;
  } catch (error) {
    failed("The thread was not forked", error);
    return null;
  }
}

/** Saves the transcript as a file. */
export async function exportThread(id: string, format: "md" | "json"): Promise<void> {
  try {
    const answer = await api.exportThread(id, format);
    save(await answer.blob(), `segue-${id}.${format}`);
  } catch (error) {
    failed("The thread was not exported", error);
  }
}

/** Deletes a thread in a few seconds, unless that is taken back. */
export function deleteWithUndo(thread: { id: string; title: string }): void {
  if ("thread" in router.route && router.route.thread === thread.id) go(to.home());
  notify(`Deleted “${thread.title}”`);
}

function save(file: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
