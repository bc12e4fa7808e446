// The state of a handoff review: polling and decisions. A newer draft never replaces the shown one, because
// the person may be about to accept it; it is offered instead.
import { notifyError } from "../app/notices.svelte";
import { refreshSession } from "../app/session.svelte";
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";
import type { DecidedHandoff, Decision, HandoffReview } from "../api/types";
import { refreshLists } from "../threads/listState.svelte";
import { compareReviews } from "./review";

/** Milliseconds between two requests while the handoff is pending. */
const POLL_MS = 3_000;

/** The decision that is being sent, as shown on the page. */
export type DecisionActivity =
  "Accepting" | "Adding" | "Saving" | "Drafting" | "Restoring" | "Declining" | "Closing";

export class ReviewStore {
  data = $state.raw<HandoffReview | null>(null);
  /** A newer draft than the shown one. */
  newerData = $state.raw<HandoffReview | null>(null);
  /** True while another client's draft is in progress. */
  isDraftedElsewhere = $state(false);
  /** True if another client has decided while this page was open. */
  isDecidedElsewhere = $state(false);
  loadError = $state.raw<ApiError | null>(null);
  /** The server's error for the last decision. */
  refusal = $state.raw<ApiError | null>(null);
  activity = $state<DecisionActivity | null>(null);

  #timer: ReturnType<typeof setTimeout> | undefined;
  #requestId = 0;
  #isDestroyed = false;

  constructor(private readonly id: string) {}

  /** Starts polling and returns a function that stops it. */
  startPolling(): () => void {
    const refreshIfVisible = () => {
      if (document.visibilityState === "visible") void this.refresh();
    };
    document.addEventListener("visibilitychange", refreshIfVisible);
    void this.refresh();
    return () => {
      this.#isDestroyed = true;
      clearTimeout(this.#timer);
      document.removeEventListener("visibilitychange", refreshIfVisible);
    };
  }

  /** Shows the newer draft. */
  showNewer(): void {
    if (this.newerData) this.data = this.newerData;
    this.newerData = null;
  }

  /** Loads the review immediately. `source` tells whether this page's own decision caused a change. */
  async refresh(source: "others" | "us" = "others"): Promise<void> {
    clearTimeout(this.#timer);
    const requestId = ++this.#requestId;
    try {
      const review = await api.handoff(this.id);
      // A response requested before the decision is outdated.
      if (requestId === this.#requestId && (source === "us" || !this.activity))
        this.#applyReview(review, source);
    } catch (error) {
      if (!this.data && error instanceof ApiError) this.loadError = error;
    }
    if (this.#isDestroyed || requestId !== this.#requestId) return;
    if (!this.data || this.data.handoff.outcome === "pending")
      this.#timer = setTimeout(() => {
        if (document.visibilityState === "visible") void this.refresh();
      }, POLL_MS);
  }

  /** Sends a decision. Returns its result, or null if it was refused; then the current state is loaded. */
  async decide(doing: DecisionActivity, decision: Decision): Promise<DecidedHandoff | null> {
    if (this.activity) return null;
    this.activity = doing;
    this.refusal = null;
    try {
      const decided = await api.decideHandoff(this.id, decision);
      await this.refresh("us");
      return decided;
    } catch (error) {
      this.activity = null;
      if (error instanceof ApiError && !this.#isDestroyed) this.refusal = error;
      else notifyError(`${doing} failed`, error);
      await this.refresh();
      return null;
    } finally {
      this.activity = null;
      refreshLists();
      void refreshSession();
    }
  }

  #applyReview(next: HandoffReview, by: "others" | "us"): void {
    this.loadError = null;
    const change = this.data && by === "others" ? compareReviews(this.data, next) : null;
    this.isDraftedElsewhere = change === "drafting";
    if (change === "none" && this.data?.pending && next.pending) return;
    if (change === "drafting") return;
    if (change === "newer" && this.data?.pending) {
      this.newerData = next;
      return;
    }
    this.isDecidedElsewhere = change === "decided";
    this.newerData = null;
    this.data = next;
  }
}
