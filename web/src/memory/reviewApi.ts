// The endpoints of proposed facts and of the history of agent.md. They are apart from the other endpoints, because only
// the memory page uses them, which is loaded lazily.
import { queryString, requestJson } from "../api/client";

export type FactState = "proposed" | "accepted" | "edited" | "declined" | "superseded";

/** A fact that a model proposed for agent.md. */
export interface ProposedFact {
  fact_id: string;
  state: FactState;
  kind: "preference" | "decision" | "environment" | "name";
  text: string;
  /** The path of the project; `null` for all projects. */
  project: string | null;
  quote: string;
  thread_id: string | null;
  seq: number;
  role: "user" | "assistant";
  replaces: string | null;
}

export interface FactPage {
  facts: ProposedFact[];
  /** The `offset` of the next page; `null` if there are no more facts. */
  next_offset: number | null;
}

export interface FactReceipt {
  replacement: "none" | "replaced" | "not_found";
  withheld: number;
}

export type FactVerdict = { decision: "accept" | "decline" } | { decision: "edit"; text: string };

/** A recorded state of the notes in agent.md. */
export interface Revision {
  revision: number;
  created_at: string;
  cause: "outside" | "remember" | "tool" | "edit" | "fact" | "restore";
  added: number;
  removed: number;
}

export interface RevisionContent {
  revision: number;
  text: string;
  diff: string;
}

export const reviewApi = {
  facts: (query: { limit: number; offset?: number; state?: FactState | "all" }) =>
    requestJson<FactPage>("GET", `/api/memory/facts${queryString({ ...query, scope: "everything" })}`),
  decide: (fact: string, verdict: FactVerdict) =>
    requestJson<FactReceipt>("POST", `/api/memory/facts/${fact}`, verdict),
  revisions: (limit: number, before?: number) =>
    requestJson<{ revisions: Revision[] }>("GET", `/api/memory/history${queryString({ limit, before })}`),
  revision: (revision: number) => requestJson<RevisionContent>("GET", `/api/memory/history/${revision}`),
  restore: (revision: number) =>
    requestJson<{ changed: boolean }>("POST", `/api/memory/history/${revision}/restore`, {}),
};

/** The maximum number of facts in a page. */
const PAGE_FACTS_MAX = 1_000;

/** Returns the state of a fact; null if there is no such fact. */
export async function findFactState(fact: string): Promise<FactState | null> {
  for (let offset: number | null = 0; offset !== null;) {
    const page: FactPage = await reviewApi.facts({ limit: PAGE_FACTS_MAX, offset, state: "all" });
    const found = page.facts.find(({ fact_id }) => fact_id === fact);
    if (found) return found.state;
    offset = page.next_offset;
  }
  return null;
}

/** Returns the current notes in agent.md, without the section managed by Segue. The server records them as a revision. */
export async function currentNotes(): Promise<string> {
  const [newest] = (await reviewApi.revisions(1)).revisions;
  return newest ? (await reviewApi.revision(newest.revision)).text : "";
}
