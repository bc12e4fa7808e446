// What can be done with a thread, from the list and from its own page. Each says why it failed; where one goes afterwards is
// part of it.
import { api } from "../api/endpoints";
import type { ThreadRow } from "../api/types";
import { failed, notify } from "../app/notices.svelte";
import { go, router, to } from "../app/router.svelte";
import type { MenuItem } from "../ui/menu";
import { titleOf } from "../ui/format";
import { problemOf, sendMessage, type Problem } from "../thread/sending";
import { save } from "../ui/save";
import { changed, gone, ongoing } from "./ongoing.svelte";

/** Milliseconds for which a deletion can be taken back. */
const UNDO_MS = 8_000;

/** What the actions have to know of a thread. */
export type Known = Pick<ThreadRow, "thread_id" | "name" | "first_prompt"> & { title?: string | null };

/** Deletions that were not sent yet, and how each is taken back; the newest is the last. */
const waiting = new Map<string, { timer: ReturnType<typeof setTimeout>; undo: () => void }>();

/** Makes a thread and goes there. Returns its id, or nothing when that failed. */
export async function createThread(): Promise<string | null> {
  try {
    const { thread_id } = await api.createThread();
    changed();
    go(to.thread(thread_id));
    return thread_id;
  } catch (error) {
    failed("The thread was not created", error);
    return null;
  }
}

/** Makes a thread with its first message and goes there. Returns null when the server has it, otherwise why it does not. */
export async function beginThread(text: string): Promise<Problem | null> {
  let id: string;
  try {
    id = (await api.createThread()).thread_id;
  } catch (error) {
    return problemOf("The thread was not created", error);
  }
  const problem = await sendMessage(id, text);
  changed();
  if (!problem) go(to.thread(id));
  // A thread with nothing in it is nobody's. Without an answer nobody knows whether the message arrived: then it stays.
  else if (!problem.isUncertain) await api.deleteThread(id).catch(() => undefined);
  return problem;
}

/** Opens the dialog that asks for a name. */
export function askName(thread: Known): void {
  ongoing.naming = { id: thread.thread_id, title: titleOf(thread), name: thread.name };
}

/** Gives a thread a name. Returns whether it has it. */
export async function renameThread(id: string, name: string): Promise<boolean> {
  try {
    await api.renameThread(id, name);
    changed();
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
    changed();
    go(to.thread(fork.thread_id));
    return fork.thread_id;
  } catch (error) {
    failed("The thread was not forked", error);
    return null;
  }
}

/** Saves the transcript as a file. */
export async function exportThread(thread: Known, format: "md" | "json"): Promise<void> {
  try {
    const answer = await api.exportThread(thread.thread_id, format);
    save(await answer.blob(), `${fileName(thread)}.${format}`);
  } catch (error) {
    failed("The thread was not exported", error);
  }
}

/** Deletes a thread in a few seconds, unless that is taken back. It is out of sight at once. */
export function deleteWithUndo(thread: Known): void {
  const id = thread.thread_id;
  if (waiting.has(id)) return;
  const left = "thread" in router.route && router.route.thread === id ? location.hash : null;
  gone.add(id);
  if (left) go(to.home());
  const undo = () => {
    // Too late once it was sent.
    if (!waiting.delete(id)) return;
    clearTimeout(timer);
    dismiss();
    gone.delete(id);
    if (left && router.route.page === "home") go(left);
  };
  const dismiss = notify(`“${titleOf(thread)}” was deleted`, {
    action: { label: "Undo", run: undo },
    ms: UNDO_MS,
  });
  const timer = setTimeout(() => void remove(id), UNDO_MS);
  waiting.set(id, { timer, undo });
}

/** Takes the newest deletion back. */
export function undoDelete(): void {
  [...waiting.values()].at(-1)?.undo();
}

/** Returns what a thread's menu offers everywhere. */
export function threadMenu(thread: Known): MenuItem[] {
  return [
    { label: "Rename…", icon: "edit", run: () => askName(thread) },
    { label: "Fork", icon: "fork", run: () => void forkThread(thread.thread_id) },
    { label: "Export as Markdown", icon: "download", run: () => void exportThread(thread, "md") },
    { label: "Export as JSON", icon: "download", run: () => void exportThread(thread, "json") },
    { label: "Delete", icon: "trash", tone: "bad", run: () => deleteWithUndo(thread) },
  ];
}

async function remove(id: string, init?: RequestInit): Promise<void> {
  waiting.delete(id);
  try {
    await api.deleteThread(id, init);
  } catch (error) {
    gone.delete(id);
    failed("The thread was not deleted", error);
  }
  changed();
}

// Whoever closes the page has said what they want, and nobody is there to take it back.
addEventListener("pagehide", () => {
  for (const [id, { timer }] of waiting) {
    clearTimeout(timer);
    void remove(id, { keepalive: true });
  }
});

function fileName(thread: Known): string {
  const words = titleOf(thread)
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "");
  return words.slice(0, 60) || thread.thread_id;
}
