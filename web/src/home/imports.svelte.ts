// The import queue: uploads session files one after the other and keeps the result of each until it is cleared, also
// while another page is shown.
import { api } from "../api/endpoints";
import type { ImportReport } from "../api/types";
import { ApiError } from "../api/client";
import { refreshLists } from "../threads/listState.svelte";

/** The server's size limit for a session, in bytes. */
const SESSION_BYTES_MAX = 256 * 2 ** 20;

export interface FileImport {
  id: number;
  name: string;
  bytes: number;
  state: "pending" | "uploading" | "done" | "failed";
  report: ImportReport | null;
  /** The error and how to fix it. */
  problem: string | null;
  hint: string | null;
}

let lastId = 0;

class ImportQueue {
  items = $state<FileImport[]>([]);
  #files = new Map<number, File>();
  #request: AbortController | null = null;

  /** The imported threads. A thread that was imported repeatedly is listed once, with its newest report. */
  get threads(): ImportReport["threads"] {
    const all = this.items.flatMap((item) => item.report?.threads ?? []);
    return [...new Map(all.map((thread) => [thread.thread_id, thread])).values()];
  }

  get isRunning(): boolean {
    return this.items.some((item) => item.state === "pending" || item.state === "uploading");
  }

  /** Imports files in order. */
  async add(files: Iterable<File>): Promise<void> {
    const wasRunning = this.isRunning;
    for (const file of files) {
      const id = ++lastId;
      this.#files.set(id, file);
      const item = { id, name: file.name, bytes: file.size, report: null, problem: null, hint: null };
      this.items.push({ ...item, state: "pending" });
    }
    if (!wasRunning) await this.#runQueue();
  }

  /** Cancels the running upload and all pending ones. */
  cancel(): void {
    for (const item of this.items) if (item.state === "pending") this.#fail(item, "Import cancelled");
    this.#request?.abort();
  }

  /** Removes finished imports. */
  clear(): void {
    this.items = this.items.filter((item) => item.state === "pending" || item.state === "uploading");
  }

  async #runQueue(): Promise<void> {
    for (let next = this.#nextPending(); next; next = this.#nextPending()) await this.#importFile(next);
  }

  #nextPending(): FileImport | undefined {
    return this.items.find((item) => item.state === "pending");
  }

  async #importFile(item: FileImport): Promise<void> {
    const file = this.#files.get(item.id);
    this.#files.delete(item.id);
    if (!file) return;
    if (file.size > SESSION_BYTES_MAX) {
      this.#fail(item, "The file is larger than 256 MiB", "`segue import PATH` has no size limit.");
      return;
    }
    item.state = "uploading";
    this.#request = new AbortController();
    try {
      item.report = await api.importSession(file, this.#request.signal);
      item.state = "done";
      refreshLists();
    } catch (error) {
      const isStopped = error instanceof DOMException && error.name === "AbortError";
      const reason = error instanceof Error ? error.message : String(error);
      this.#fail(item, isStopped ? "Import cancelled" : reason, errorHint(error));
    }
  }

  #fail(item: FileImport, problem: string, hint: string | null = null): void {
    item.state = "failed";
    item.problem = problem;
    item.hint = hint;
  }
}

export const imports = new ImportQueue();

function errorHint(error: unknown): string | null {
  return error instanceof ApiError ? error.hint : null;
}
