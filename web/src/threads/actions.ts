// Actions on threads, shared by the list and the thread page. Each shows its errors and navigates to its
// result.
import { api } from "../api/endpoints";
import type { ThreadRow } from "../api/types";
import { notifyError, notify } from "../app/notices.svelte";
import { navigate, router, paths } from "../app/router.svelte";
import type { MenuItem } from "../ui/menu";
import { titleOf } from "../ui/format";
import { toFailure, sendMessage, type RequestFailure } from "../thread/sendMessage";
import { saveFile } from "../ui/saveFile";
import { refreshLists, deletedThreads, listState } from "./listState.svelte";

/** Milliseconds for which a deletion can be undone. */
const UNDO_MS = 8_000;

/** The properties of a thread that the actions need. */
export type ThreadRef = Pick<ThreadRow, "thread_id" | "name" | "first_prompt"> & { title?: string | null };

/** Deletions that have not been sent, each with its undo function; the newest is the last. */
const pendingDeletions = new Map<string, { timer: ReturnType<typeof setTimeout>; undo: () => void }>();

/** Creates a thread and opens it. Returns its id, or null on failure. */
export async function createThread(): Promise<string | null> {
  try {
    const { thread_id } = await api.createThread();
    refreshLists();
    navigate(paths.thread(thread_id));
    return thread_id;
  } catch (error) {
    notifyError("Could not create the thread", error);
    return null;
  }
}

/**
 * Creates a thread with its first message and opens it. Returns null if the server has accepted the message,
 * otherwise the failure.
 */
export async function startThread(text: string): Promise<RequestFailure | null> {
  let id: string;
  try {
    id = (await api.createThread()).thread_id;
  } catch (error) {
    return toFailure("Could not create the thread", error);
  }
  const problem = await sendMessage(id, text);
  refreshLists();
  if (!problem) navigate(paths.thread(id));
  // An empty thread is deleted, unless the message may have arrived without a response.
  else if (!problem.isUncertain) await api.deleteThread(id).catch(() => undefined);
  return problem;
}

/** Opens the rename dialog. */
export function openRename(thread: ThreadRef): void {
  listState.renaming = { id: thread.thread_id, title: titleOf(thread), name: thread.name };
}

/** Renames a thread. Returns true on success. */
export async function renameThread(id: string, name: string): Promise<boolean> {
  try {
    await api.renameThread(id, name);
    refreshLists();
    return true;
  } catch (error) {
    notifyError("Could not rename the thread", error);
    return false;
  }
}

/** Forks a thread, entirely or up to a position, and opens the fork. Returns its id. */
export async function forkThread(id: string, keepSeq?: number): Promise<string | null> {
  try {
    const fork = await api.forkThread(id, keepSeq);
    refreshLists();
    navigate(paths.thread(fork.thread_id));
    return fork.thread_id;
  } catch (error) {
    notifyError("Could not fork the thread", error);
    return null;
  }
}

/** Downloads the transcript. */
export async function exportThread(thread: ThreadRef, format: "md" | "json"): Promise<void> {
  try {
    const response = await api.exportThread(thread.thread_id, format);
    saveFile(await response.blob(), `${fileName(thread)}.${format}`);
  } catch (error) {
    notifyError("Could not export the thread", error);
  }
}

/** Hides a thread at once and deletes it after a few seconds, unless the deletion is undone. */
export function deleteWithUndo(thread: ThreadRef): void {
  const id = thread.thread_id;
  if (pendingDeletions.has(id)) return;
  const returnAddress = "thread" in router.route && router.route.thread === id ? location.hash : null;
  deletedThreads.add(id);
  if (returnAddress) navigate(paths.home());
  const undo = () => {
    // The deletion was already sent.
    if (!pendingDeletions.delete(id)) return;
    clearTimeout(timer);
    dismiss();
    deletedThreads.delete(id);
    if (returnAddress && router.route.page === "home") navigate(returnAddress);
  };
  const dismiss = notify(`“${titleOf(thread)}” deleted`, {
    action: { label: "Undo", run: undo },
    ms: UNDO_MS,
  });
  const timer = setTimeout(() => void sendDeletion(id), UNDO_MS);
  pendingDeletions.set(id, { timer, undo });
}

/** Undoes the newest deletion. */
export function undoDelete(): void {
  [...pendingDeletions.values()].at(-1)?.undo();
}

/** Returns the menu items that every menu of a thread has. */
export function threadMenuItems(thread: ThreadRef): MenuItem[] {
  return [
    { label: "Rename…", icon: "edit", run: () => openRename(thread) },
    { label: "Fork", icon: "fork", run: () => void forkThread(thread.thread_id) },
    { label: "Export as Markdown", icon: "download", run: () => void exportThread(thread, "md") },
    { label: "Export as JSON", icon: "download", run: () => void exportThread(thread, "json") },
    { label: "Delete", icon: "trash", tone: "bad", run: () => deleteWithUndo(thread) },
  ];
}

async function sendDeletion(id: string, init?: RequestInit): Promise<void> {
  pendingDeletions.delete(id);
  try {
    await api.deleteThread(id, init);
  } catch (error) {
    deletedThreads.delete(id);
    notifyError("Could not delete the thread", error);
  }
  refreshLists();
}

// Closing the page sends pending deletions at once, because nobody can undo them any more.
addEventListener("pagehide", () => {
  for (const [id, { timer }] of pendingDeletions) {
    clearTimeout(timer);
    void sendDeletion(id, { keepalive: true });
  }
});

function fileName(thread: ThreadRef): string {
  const words = titleOf(thread)
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}]+/gu, "-")
    .replace(/^-|-$/g, "");
  return words.slice(0, 60) || thread.thread_id;
}
