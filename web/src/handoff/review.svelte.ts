// One handoff under review: what is shown of it, what there is since, and the decision. It never puts another text in the
// place of the one that is shown while a person may be about to accept that; it offers it.
import { failed } from "../app/notices.svelte";
import { look } from "../app/session.svelte";
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";
import type { DecidedHandoff, Decision, HandoffReview } from "../api/types";
import { changed } from "./review";

/** Milliseconds between looks at a handoff that waits. */
const LOOK_EVERY_MS = 3_000;

/** What is being done, in the words of the screen. */
export type Doing = "Accepting" | "Drafting" | "Going back" | "Declining" | "Closing";

export class Review {
  shown = $state.raw<HandoffReview | null>(null);
  /** A newer draft than the one that is shown. */
  newer = $state.raw<HandoffReview | null>(null);
  /** Whether another client has a draft made. */
  isDraftedElsewhere = $state(false);
  /** Whether somebody else decided while this page was open. */
  isOvertaken = $state(false);
  problem = $state.raw<ApiError | null>(null);
  /** Why the last decision was not taken, in the server's words. */
  refusal = $state.raw<ApiError | null>(null);
  doing = $state<Doing | null>(null);

  private timer: ReturnType<typeof setTimeout> | undefined;
  private asked = 0;
  private isOver = false;

  constructor(private readonly id: string) {}

  /** Begins to look; returns what ends it. */
  follow(): () => void {
    const again = () => {
      if (document.visibilityState === "visible") void this.look();
    };
    document.addEventListener("visibilitychange", again);
    void this.look();
    return () => {
      this.isOver = true;
      clearTimeout(this.timer);
      document.removeEventListener("visibilitychange", again);
    };
  }

  /** Shows the newer draft. */
  showNewer(): void {
    if (this.newer) this.shown = this.newer;
    this.newer = null;
  }

  /** Looks at once. `by` says whether it is this page's own decision that changed something. */
  async look(by: "others" | "us" = "others"): Promise<void> {
    clearTimeout(this.timer);
    const asked = ++this.asked;
    try {
      const review = await api.handoff(this.id);
      // An answer that was asked for before a decision says nothing about it.
      if (asked === this.asked && (by === "us" || !this.doing)) this.take(review, by);
    } catch (error) {
      if (!this.shown && error instanceof ApiError) this.problem = error;
    }
    if (this.isOver || asked !== this.asked) return;
    if (!this.shown || this.shown.handoff.outcome === "pending")
      this.timer = setTimeout(() => {
        if (document.visibilityState === "visible") void this.look();
      }, LOOK_EVERY_MS);
  }

  /** Sends a decision. Returns what came of it, or nothing when it was refused; then what there is instead is shown. */
  async decide(doing: Doing, decision: Decision): Promise<DecidedHandoff | null> {
    if (this.doing) return null;
    this.doing = doing;
    this.refusal = null;
    try {
      const decided = await api.decideHandoff(this.id, decision);
      await this.look("us");
      return decided;
    } catch (error) {
      this.doing = null;
      if (error instanceof ApiError && !this.isOver) this.refusal = error;
      else failed(`${doing} failed`, error);
      await this.look();
      return null;
    } finally {
      this.doing = null;
      void look();
    }
  }

  private take(now: HandoffReview, by: "others" | "us"): void {
    this.problem = null;
    const change = this.shown && by === "others" ? changed(this.shown, now) : null;
    this.isDraftedElsewhere = change === "drafting";
    if (change === "none" && this.shown?.pending && now.pending) return;
    if (change === "drafting") return;
    if (change === "newer" && this.shown?.pending) {
      this.newer = now;
      return;
    }
    this.isOvertaken = change === "decided";
    this.newer = null;
    this.shown = now;
  }
}
