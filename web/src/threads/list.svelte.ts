// The list of threads as it is fetched: one request at a time, always for what is looked at now, so that a scroll through
// thousands asks only for where it comes to rest. It knows nothing of pixels.
import { api } from "../api/endpoints";
import type { ThreadState } from "../api/types";
import { gone } from "./ongoing.svelte";
import { gaps, hole, indexOf, put, slotOf, type Slots } from "./slots";

/** Rows of a request. */
const PAGE_ROWS = 50;
/** Rows beyond what is seen that are fetched with it. */
const AHEAD_ROWS = 20;
/** Rows of a request, at most; the server gives no more. */
const REQUEST_ROWS_MAX = 200;

export interface Filter {
  q: string;
  state: ThreadState | null;
}

export class ThreadList {
  private slots = $state.raw<Slots>([]);
  private gaps = $derived(gaps(this.slots, gone));
  /** The filter whose rows are shown; another one may be on its way. */
  shown = $state.raw<Filter | null>(null);
  /** Why the last request failed. */
  problem = $state.raw<unknown>(null);

  private filter: Filter = { q: "", state: null };
  private seen = { from: 0, to: 0 };
  private isStale = true;
  private isBusy = false;
  private request = new AbortController();

  /** `around` may look at the screen before and after rows change. */
  constructor(private readonly around: (apply: () => void) => void = (apply) => apply()) {}

  /** How many threads there are. */
  get total(): number {
    return this.slots.length - this.gaps.length;
  }

  /** What is at a place, as far as it is known. */
  row(index: number) {
    return this.slots[slotOf(index, this.gaps)];
  }

  /** Where a thread is, or -1. */
  indexOf(id: string): number {
    return indexOf(this.slots, id, this.gaps);
  }

  /** Shows other threads; what was asked before is given up. What is there stays until they come. */
  ask(filter: Filter): void {
    this.filter = filter;
    this.seen = { from: 0, to: Math.min(this.seen.to - this.seen.from, PAGE_ROWS) };
    this.isStale = true;
    this.request.abort();
    void this.work();
  }

  /** Says what is looked at; holes there are filled. */
  see(from: number, to: number): void {
    this.seen = { from, to };
    void this.work();
  }

  /** Fetches anew what is looked at. */
  refresh(): void {
    this.isStale = true;
    void this.work();
  }

  /** Gives up what is on its way. */
  stop(): void {
    this.request.abort();
    this.isStale = false;
    this.seen = { from: 0, to: 0 };
  }

  private async work(): Promise<void> {
    if (this.isBusy) return;
    this.isBusy = true;
    try {
      for (let next = this.next(); next; next = this.next()) await this.fetch(next);
    } finally {
      this.isBusy = false;
    }
  }

  private next(): { offset: number; limit: number } | null {
    const from = Math.max(0, this.seen.from - AHEAD_ROWS);
    const to = this.seen.to + AHEAD_ROWS;
    if (this.isStale) {
      const limit = Math.min(Math.max(to - from, PAGE_ROWS), REQUEST_ROWS_MAX);
      return this.shown === this.filter ? { offset: from, limit } : { offset: 0, limit };
    }
    if (this.problem) return null;
    const first = hole(this.slots, from, to + this.gaps.length);
    return first < 0 ? null : { offset: first - (first % PAGE_ROWS), limit: PAGE_ROWS };
  }

  private async fetch({ offset, limit }: { offset: number; limit: number }): Promise<void> {
    const filter = this.filter;
    this.isStale = false;
    this.request = new AbortController();
    try {
      const query = { q: filter.q || undefined, state: filter.state ?? undefined, limit, offset };
      const page = await api.threads(query, this.request.signal);
      if (filter !== this.filter) return;
      this.problem = null;
      this.around(() => {
        this.slots = put(this.shown === filter ? this.slots : [], page, offset, limit);
        this.shown = filter;
      });
    } catch (error) {
      // Another filter is asked for, or nobody looks any more: no failure.
      if (filter === this.filter && !this.request.signal.aborted) this.problem = error;
    }
  }
}
