// Loads the thread list: one request at a time, always for the visible rows, so that fast scrolling only
// loads the rows where it stops. It knows nothing of pixels.
import { api } from "../api/endpoints";
import type { ThreadState } from "../api/types";
import { deletedThreads } from "./listState.svelte";
import { hiddenPositions, firstHole, visibleIndexOf, insertPage, slotOf, type Slots } from "./slots";

/** The number of rows per request. */
const PAGE_ROWS = 50;
/** The number of rows that are loaded beyond the visible ones. */
const AHEAD_ROWS = 20;
/** The server's limit for one request. */
const REQUEST_ROWS_MAX = 200;

export interface ThreadFilter {
  q: string;
  state: ThreadState | null;
}

export class ThreadList {
  #slots = $state.raw<Slots>([]);
  #hiddenSlots = $derived(hiddenPositions(this.#slots, deletedThreads));
  /** The filter of the loaded rows; the rows of another one may be loading. */
  loadedFilter = $state.raw<ThreadFilter | null>(null);
  /** False if the server stopped counting, so that there may be more threads than `total`. */
  isTotalExact = $state.raw(true);
  /** The error of the last request. */
  problem = $state.raw<unknown>(null);

  #filter: ThreadFilter = { q: "", state: null };
  #visible = { from: 0, to: 0 };
  #isStale = true;
  #isFetching = false;
  #request = new AbortController();

  /** `applyChange` wraps each change of the rows, for example to keep the scroll position. */
  constructor(private readonly applyChange: (apply: () => void) => void = (apply) => apply()) {}

  /** The number of threads. */
  get total(): number {
    return this.#slots.length - this.#hiddenSlots.length;
  }

  /** Returns the row at an index if it is loaded. */
  row(index: number) {
    return this.#slots[slotOf(index, this.#hiddenSlots)];
  }

  /** Returns the index of a thread, or -1. */
  indexOf(id: string): number {
    return visibleIndexOf(this.#slots, id, this.#hiddenSlots);
  }

  /** Changes the filter and cancels the running request. The old rows stay until the new ones are loaded. */
  setFilter(filter: ThreadFilter): void {
    this.#filter = filter;
    this.#visible = { from: 0, to: Math.min(this.#visible.to - this.#visible.from, PAGE_ROWS) };
    this.#isStale = true;
    this.#request.abort();
    void this.#fetchPending();
  }

  /** Sets the visible range and loads its holes. */
  setVisible(from: number, to: number): void {
    this.#visible = { from, to };
    void this.#fetchPending();
  }

  /** Reloads the visible rows. */
  reload(): void {
    this.#isStale = true;
    void this.#fetchPending();
  }

  /** Cancels the running request. */
  stop(): void {
    this.#request.abort();
    this.#isStale = false;
    this.#visible = { from: 0, to: 0 };
  }

  async #fetchPending(): Promise<void> {
    if (this.#isFetching) return;
    this.#isFetching = true;
    try {
      for (let nextRequest = this.#next(); nextRequest; nextRequest = this.#next())
        await this.#fetchPage(nextRequest);
    } finally {
      this.#isFetching = false;
    }
  }

  #next(): { offset: number; limit: number } | null {
    const from = Math.max(0, this.#visible.from - AHEAD_ROWS);
    const to = this.#visible.to + AHEAD_ROWS;
    if (this.#isStale) {
      const limit = Math.min(Math.max(to - from, PAGE_ROWS), REQUEST_ROWS_MAX);
      return this.loadedFilter === this.#filter ? { offset: from, limit } : { offset: 0, limit };
    }
    if (this.problem) return null;
    const first = firstHole(this.#slots, from, to + this.#hiddenSlots.length);
    return first < 0 ? null : { offset: first - (first % PAGE_ROWS), limit: PAGE_ROWS };
  }

  async #fetchPage({ offset, limit }: { offset: number; limit: number }): Promise<void> {
    const filter = this.#filter;
    this.#isStale = false;
    this.#request = new AbortController();
    try {
      const query = { q: filter.q || undefined, state: filter.state ?? undefined, limit, offset };
      const page = await api.threads(query, this.#request.signal);
      if (filter !== this.#filter) return;
      this.problem = null;
      this.applyChange(() => {
        this.#slots = insertPage(this.loadedFilter === filter ? this.#slots : [], page, offset, limit);
        this.isTotalExact = page.is_total_exact;
        this.loadedFilter = filter;
      });
    } catch (error) {
      // A request cancelled by a new filter or by unmounting has not failed.
      if (filter === this.#filter && !this.#request.signal.aborted) this.problem = error;
    }
  }
}
