// Sessions of other agents on their way into threads: one file after another, each with what became of it.
import { api } from "../api/endpoints";
import type { ImportReport } from "../api/types";
import { ApiError } from "../api/client";
import { changed } from "../threads/ongoing.svelte";

/** Bytes of a session, at most; the server refuses more. */
const SESSION_BYTES_MAX = 256 * 2 ** 20;

export interface Arrival {
  id: number;
  name: string;
  bytes: number;
  state: "waits" | "arrives" | "done" | "failed";
  report: ImportReport | null;
  /** Why it failed, and what to do. */
  problem: string | null;
  hint: string | null;
}

let last = 0;

export class Imports {
  all = $state<Arrival[]>([]);
  private files = new Map<number, File>();
  private request: AbortController | null = null;

  get isBusy(): boolean {
    return this.all.some((arrival) => arrival.state === "waits" || arrival.state === "arrives");
  }

  /** Imports files, in their order. Returns the threads they became. */
  async add(files: Iterable<File>): Promise<string[]> {
    const wasBusy = this.isBusy;
    for (const file of files) {
      const id = ++last;
      this.files.set(id, file);
      const arrival = { id, name: file.name, bytes: file.size, report: null, problem: null, hint: null };
      this.all.push({ ...arrival, state: "waits" });
    }
    return wasBusy ? [] : this.work();
  }

  /** Stops what arrives, and what waits behind it. */
  cancel(): void {
    for (const arrival of this.all)
      if (arrival.state === "waits") this.fail(arrival, "Not imported: stopped");
    this.request?.abort();
  }

  /** Forgets what is over. */
  clear(): void {
    this.all = this.all.filter((arrival) => arrival.state === "waits" || arrival.state === "arrives");
  }

  private async work(): Promise<string[]> {
    const threads: string[] = [];
    for (let next = this.waiting(); next; next = this.waiting()) {
      await this.import(next);
      threads.push(...(next.report?.threads ?? []).map((thread) => thread.thread_id));
    }
    return threads;
  }

  private waiting(): Arrival | undefined {
    return this.all.find((arrival) => arrival.state === "waits");
  }

  private async import(arrival: Arrival): Promise<void> {
    const file = this.files.get(arrival.id);
    this.files.delete(arrival.id);
    if (!file) return;
    if (file.size > SESSION_BYTES_MAX) {
      this.fail(arrival, "It has more than 256 MiB", "`segue import PATH` reads files of any size.");
      return;
    }
    arrival.state = "arrives";
    this.request = new AbortController();
    try {
      arrival.report = await api.importSession(file, this.request.signal);
      arrival.state = "done";
      changed();
    } catch (error) {
      const isStopped = error instanceof DOMException && error.name === "AbortError";
      const reason = error instanceof Error ? error.message : String(error);
      this.fail(arrival, isStopped ? "Not imported: stopped" : reason, hintOf(error));
    }
  }

  private fail(arrival: Arrival, problem: string, hint: string | null = null): void {
    arrival.state = "failed";
    arrival.problem = problem;
    arrival.hint = hint;
  }
}

function hintOf(error: unknown): string | null {
  return error instanceof ApiError ? error.hint : null;
}
