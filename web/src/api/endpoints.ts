// The endpoints the page uses, one function each. They know paths and shapes and nothing of the screen.
import { call, query, send } from "./client";
import type {
  AgentInfo,
  AgentMd,
  Context,
  DecidedHandoff,
  Decision,
  HandoffReview,
  HistoryPage,
  ImportReport,
  JournalEvent,
  Json,
  JsonObject,
  Lineage,
  ListedHandoff,
  MemoryStats,
  Models,
  PendingHandoff,
  Remembered,
  Run,
  RunFeedback,
  SearchResults,
  StoredSummary,
  ThreadDetail,
  ThreadRow,
  ThreadRows,
  ThreadState,
} from "./types";

const thread = (id: string) => `/api/threads/${id}`;

export interface HistoryQuery {
  before_seq?: number;
  after_seq?: number;
  limit?: number;
  superseded?: boolean;
  shown?: "all" | "markers";
}

export const api = {
  agent: () => call<AgentInfo>("GET", "/api/agent"),
  models: () => call<Models>("GET", "/api/models"),
  /** Sends a session of another agent as it is. */
  importSession: async (file: File, signal?: AbortSignal) => {
    const path = `/api/import${query({ name: file.name })}`;
    const headers = { "content-type": "application/octet-stream" };
    return (await (await send(path, { method: "POST", body: file, headers, signal })).json()) as ImportReport;
  },

  threads: (q: { q?: string; state?: ThreadState; limit?: number; offset?: number }, signal?: AbortSignal) =>
    call<ThreadRows>("GET", `/api/threads${query(q)}`, undefined, { signal }),
  thread: (id: string) => call<ThreadDetail>("GET", thread(id)),
  createThread: () => call<{ thread_id: string }>("POST", "/threads", {}),
  renameThread: (id: string, name: string) => call<ThreadRow>("PATCH", thread(id), { name }),
  /** With `keepalive` it is sent even when the page is being closed. */
  deleteThread: (id: string, init?: RequestInit) => call<void>("DELETE", `/threads/${id}`, undefined, init),
  forkThread: (id: string, keep_seq?: number) => call<ThreadRow>("POST", `${thread(id)}/fork`, { keep_seq }),
  rewind: (id: string, keep_seq: number) => call<JsonObject>("POST", `${thread(id)}/rewind`, { keep_seq }),
  exportThread: (id: string, format: "md" | "json") => send(`${thread(id)}/export${query({ format })}`),
  artifact: (id: string, sha256: string) => send(`${thread(id)}/artifacts/${sha256}`),
  lineage: (id: string) => call<Lineage>("GET", `${thread(id)}/lineage`),

  history: (id: string, q: HistoryQuery = {}) =>
    call<HistoryPage>("GET", `${thread(id)}/history${query({ ...q })}`),
  markerMessages: (id: string, seq: number, q: HistoryQuery = {}) =>
    call<HistoryPage>("GET", `${thread(id)}/history/markers/${seq}/messages${query({ ...q })}`),
  /** The threads in which the sub-agents of its calls work. */
  subagents: (id: string) =>
    call<{ subagents: { call_id: string; thread_id: string }[] }>("GET", `${thread(id)}/subagents`),
  context: (id: string) => call<Context>("GET", `${thread(id)}/context`),
  compact: (id: string, options: { focus?: string; keep?: { messages: number } } = {}) =>
    call<{ outcome: string; reason?: string }>("POST", `${thread(id)}/compact`, options),
  uncompact: (id: string) => call<JsonObject>("POST", `${thread(id)}/uncompact`, {}),

  /** Begins a turn; the page follows the thread, so nothing is streamed back here. */
  run: (id: string, text: string) =>
    call<Run>("POST", `/threads/${id}/runs`, {
      assistant_id: "agent",
      input: { messages: [{ role: "user", content: text }] },
      stream_resumable: true,
      stream_subgraphs: true,
    }),
  /** Goes on where the last run failed or was stopped; nothing is said anew. */
  again: (id: string) =>
    call<Run>("POST", `/threads/${id}/runs`, {
      assistant_id: "agent",
      input: null,
      stream_resumable: true,
      stream_subgraphs: true,
    }),
  /** Moves a thread to the server's folder and asks about the calls of this question again, if it still waits. */
  rehome: (id: string, interruptId: string) =>
    call<{ thread_id: string; run_id: string; workspace: string | null }>("POST", `${thread(id)}/rehome`, {
      interrupt_id: interruptId,
    }),
  /** Answers a question that is not a handoff's. */
  resume: (id: string, interruptId: string, decisions: Decision[]) =>
    call<Run>("POST", `/threads/${id}/runs`, {
      assistant_id: "agent",
      command: { resume: { [interruptId]: { decisions } } },
      stream_resumable: true,
      stream_subgraphs: true,
    }),
  runs: (id: string, limit = 20, offset = 0) =>
    call<Run[]>("GET", `/threads/${id}/runs${query({ limit, offset })}`),
  runOf: (id: string, run: string) => call<Run>("GET", `/threads/${id}/runs/${run}`),
  cancel: (id: string, run: string) =>
    call<Json>("POST", `/threads/${id}/runs/${run}/cancel?wait=false&action=interrupt`),
  runEvents: (id: string, run: string, after?: number) =>
    call<{ events: JournalEvent[]; next_after: number | null }>(
      "GET",
      `${thread(id)}/runs/${run}/events${query({ after, limit: 1000 })}`,
    ),
  rate: (id: string, run: string, rating: 1 | -1, comment: string | null) =>
    call<{ feedback: RunFeedback }>("PUT", `${thread(id)}/runs/${run}/feedback`, { rating, comment }),
  unrate: (id: string, run: string) => call<void>("DELETE", `${thread(id)}/runs/${run}/feedback`),

  handOff: (id: string, options: { goal?: string; messages?: number; preview?: boolean } = {}) =>
    call<PendingHandoff>("POST", `${thread(id)}/handoffs`, options),
  handoffs: (q: { status?: string; thread_id?: string; limit?: number } = {}) =>
    call<{ handoffs: ListedHandoff[] }>("GET", `/api/handoffs${query(q)}`),
  handoff: (id: string) => call<HandoffReview>("GET", `/api/handoffs/${id}`),
  decideHandoff: (id: string, decision: Decision) =>
    call<DecidedHandoff>("POST", `/api/handoffs/${id}/decision`, { decisions: [decision] }),

  search: (
    q: { q: string; kinds?: string; thread_id?: string; since?: string; limit?: number },
    signal?: AbortSignal,
  ) => call<SearchResults>("GET", `/api/search${query(q)}`, undefined, { signal }),
  memory: () => call<MemoryStats>("GET", "/api/memory"),
  agentMd: () => call<AgentMd>("GET", "/api/memory/agent_md"),
  writeAgentMd: (text: string, sha256: string) =>
    call<AgentMd>("PUT", "/api/memory/agent_md", { text, sha256 }),
  remember: (text: string) => call<Remembered>("POST", "/api/memory/remember", { text }),
  summaries: (limit = 20) =>
    call<{ summaries: StoredSummary[] }>("GET", `/api/memory/summaries${query({ limit })}`),
};
