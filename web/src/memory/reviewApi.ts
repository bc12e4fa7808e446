// The endpoints of proposed facts and of the history of agent.md. They are apart from the other endpoints, because only
// the memory page uses them, which is loaded lazily.
import { queryString, requestJson } from "../api/client";

/** A fact that a model proposed for agent.md. */
export interface ProposedFact {
  fact_id: string;
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
  facts: (limit: number) =>
    requestJson<{ facts: ProposedFact[]; next_offset: number | null }>(
      "GET",
      `/api/memory/facts${queryString({ limit, scope: "everything" })}`,
    ),
  decide: (fact: string, verdict: FactVerdict) =>
    requestJson<FactReceipt>("POST", `/api/memory/facts/${fact}`, verdict),
  revisions: (limit: number, before?: number) =>
    requestJson<{ revisions: Revision[] }>("GET", `/api/memory/history${queryString({ limit, before })}`),
  revision: (revision: number) => requestJson<RevisionContent>("GET", `/api/memory/history/${revision}`),
  restore: (revision: number) =>
    requestJson<{ changed: boolean }>("POST", `/api/memory/history/${revision}/restore`, {}),
};
