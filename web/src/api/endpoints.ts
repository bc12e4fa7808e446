// The endpoints that the page uses, one function each. They know paths and types, and nothing of the user
// interface.
import { requestJson, queryString, sendRequest } from "./client";
import type {
  AgentInfo,
  AgentMd,
  ChildPackage,
  ContextUsage,
  ContinuityReport,
  DecidedHandoff,
  Decision,
  EditPreview,
  HandoffReview,
  HistoryPage,
  ImportReport,
  JournalEvent,
  Json,
  JsonObject,
  LineUpdate,
  ListedHandoff,
  MemoryStats,
  ModelCatalog,
  PartsEstimate,
  PendingHandoff,
  Pin,
  PinReceipt,
  PinRequest,
  RememberReceipt,
  Run,
  RunFeedback,
  SearchResults,
  StoredSummary,
  ThreadDetail,
  ThreadLineage,
  ThreadRow,
  ThreadRows,
  ThreadState,
} from "./types";

const threadPath = (id: string) => `/api/threads/${id}`;

export interface HistoryQuery {
  before_seq?: number;
  after_seq?: number;
  limit?: number;
  superseded?: boolean;
  shown?: "all" | "markers";
}

export const api = {
  agent: () => requestJson<AgentInfo>("GET", "/api/agent"),
  models: () => requestJson<ModelCatalog>("GET", "/api/models"),
  /** Uploads a session file of another agent unchanged. */
  importSession: async (file: File, signal?: AbortSignal) => {
    const path = `/api/import${queryString({ name: file.name })}`;
    const headers = { "content-type": "application/octet-stream" };
    return (await (
      await sendRequest(path, { method: "POST", body: file, headers, signal })
    ).json()) as ImportReport;
  },

  threads: (q: { q?: string; state?: ThreadState; limit?: number; offset?: number }, signal?: AbortSignal) =>
    requestJson<ThreadRows>("GET", `/api/threads${queryString(q)}`, undefined, { signal }),
  thread: (id: string) => requestJson<ThreadDetail>("GET", threadPath(id)),
  createThread: () => requestJson<{ thread_id: string }>("POST", "/threads", {}),
  renameThread: (id: string, name: string) => requestJson<ThreadRow>("PATCH", threadPath(id), { name }),
  /** With `keepalive`, the browser sends the request even while the page is being closed. */
  deleteThread: (id: string, init?: RequestInit) =>
    requestJson<void>("DELETE", `/threads/${id}`, undefined, init),
  forkThread: (id: string, keep_seq?: number) =>
    requestJson<ThreadRow>("POST", `${threadPath(id)}/fork`, { keep_seq }),
  rewind: (id: string, keep_seq: number) =>
    requestJson<JsonObject>("POST", `${threadPath(id)}/rewind`, { keep_seq }),
  exportThread: (id: string, format: "md" | "json") =>
    sendRequest(`${threadPath(id)}/export${queryString({ format })}`),
  artifact: (id: string, sha256: string) => sendRequest(`${threadPath(id)}/artifacts/${sha256}`),
  lineage: (id: string) => requestJson<ThreadLineage>("GET", `${threadPath(id)}/lineage`),

  history: (id: string, q: HistoryQuery = {}) =>
    requestJson<HistoryPage>("GET", `${threadPath(id)}/history${queryString({ ...q })}`),
  markerMessages: (id: string, seq: number, q: HistoryQuery = {}) =>
    requestJson<HistoryPage>(
      "GET",
      `${threadPath(id)}/history/markers/${seq}/messages${queryString({ ...q })}`,
    ),
  /** Returns the threads of the sub-agents that this thread's calls started. */
  subagents: (id: string) =>
    requestJson<{ subagents: { call_id: string; thread_id: string }[] }>(
      "GET",
      `${threadPath(id)}/subagents`,
    ),
  context: (id: string) => requestJson<ContextUsage>("GET", `${threadPath(id)}/context`),
  compact: (id: string, options: { focus?: string; keep?: { messages: number } } = {}) =>
    requestJson<{ outcome: string; reason?: string }>("POST", `${threadPath(id)}/compact`, options),
  uncompact: (id: string) => requestJson<JsonObject>("POST", `${threadPath(id)}/uncompact`, {}),

  /**
   * Starts a run with a message. Its events arrive on the thread's stream, so the response is not streamed.
   */
  run: (id: string, text: string) =>
    requestJson<Run>("POST", `/threads/${id}/runs`, {
      assistant_id: "agent",
      input: { messages: [{ role: "user", content: text }] },
      stream_resumable: true,
      stream_subgraphs: true,
    }),
  /** Restarts after a failed or stopped run, without a new message. */
  retry: (id: string) =>
    requestJson<Run>("POST", `/threads/${id}/runs`, {
      assistant_id: "agent",
      input: null,
      stream_resumable: true,
      stream_subgraphs: true,
    }),
  /**
   * Moves a thread to the server's folder. If the given question is still pending, the server asks it again.
   */
  moveThread: (id: string, interruptId: string) =>
    requestJson<{ thread_id: string; run_id: string; workspace: string | null }>(
      "POST",
      `${threadPath(id)}/rehome`,
      {
        interrupt_id: interruptId,
      },
    ),
  /** Answers a question that is not about a handoff. */
  resume: (id: string, interruptId: string, decisions: Decision[]) =>
    requestJson<Run>("POST", `/threads/${id}/runs`, {
      assistant_id: "agent",
      command: { resume: { [interruptId]: { decisions } } },
      stream_resumable: true,
      stream_subgraphs: true,
    }),
  runs: (id: string, limit = 20, offset = 0) =>
    requestJson<Run[]>("GET", `/threads/${id}/runs${queryString({ limit, offset })}`),
  getRun: (id: string, run: string) => requestJson<Run>("GET", `/threads/${id}/runs/${run}`),
  cancel: (id: string, run: string) =>
    requestJson<Json>("POST", `/threads/${id}/runs/${run}/cancel?wait=false&action=interrupt`),
  runEvents: (id: string, run: string, after?: number) =>
    requestJson<{ events: JournalEvent[]; next_after: number | null }>(
      "GET",
      `${threadPath(id)}/runs/${run}/events${queryString({ after, limit: 1000 })}`,
    ),
  putFeedback: (id: string, run: string, rating: 1 | -1, comment: string | null) =>
    requestJson<{ feedback: RunFeedback }>("PUT", `${threadPath(id)}/runs/${run}/feedback`, {
      rating,
      comment,
    }),
  deleteFeedback: (id: string, run: string) =>
    requestJson<void>("DELETE", `${threadPath(id)}/runs/${run}/feedback`),

  pins: (id: string) => requestJson<{ pins: Pin[] }>("GET", `${threadPath(id)}/pins`),
  pin: (id: string, request: PinRequest) =>
    requestJson<PinReceipt>("POST", `${threadPath(id)}/pins`, request),
  unpin: (id: string, number: number) =>
    requestJson<{ pin: Pin; pins: Pin[] }>("DELETE", `${threadPath(id)}/pins/${number}`),

  /** With `into`, accepting adds the summary to that child of another handoff. */
  createHandoff: (
    id: string,
    options: { goal?: string; messages?: number; preview?: boolean; into?: string } = {},
  ) => requestJson<PendingHandoff>("POST", `${threadPath(id)}/handoffs`, options),
  estimateHandoff: (id: string, messages: number | null) =>
    requestJson<PartsEstimate>(
      "GET",
      `${threadPath(id)}/handoffs/estimate${queryString({ messages: messages ?? undefined })}`,
    ),
  handoffs: (q: { status?: string; thread_id?: string; limit?: number } = {}) =>
    requestJson<{ handoffs: ListedHandoff[] }>("GET", `/api/handoffs${queryString(q)}`),
  handoff: (id: string) => requestJson<HandoffReview>("GET", `/api/handoffs/${id}`),
  packages: (thread: string) =>
    requestJson<{ packages: ChildPackage[] }>("GET", `${threadPath(thread)}/packages`),
  /** Changes one line of an accepted summary; null removes it. */
  updatePackage: (handoff: string, update: LineUpdate) =>
    requestJson<ChildPackage>("POST", `/api/handoffs/${handoff}/package`, update),
  /** Checks what the pending text alone answers; null if an automatic check is turned off. */
  probeHandoff: (id: string, automatic: boolean) =>
    requestJson<ContinuityReport | null>("POST", `/api/handoffs/${id}/probe`, { automatic }),
  /** Returns the draft that a text would become, with the notes for its review. Nothing is stored. */
  previewEdit: (id: string, args: JsonObject) =>
    requestJson<EditPreview>("POST", `/api/handoffs/${id}/edit-preview`, args),
  decideHandoff: (id: string, decision: Decision) =>
    requestJson<DecidedHandoff>("POST", `/api/handoffs/${id}/decision`, { decisions: [decision] }),

  /** Searches the threads of all projects, because the page lists all of them. */
  search: (
    q: { q: string; kinds?: string; thread_id?: string; since?: string; limit?: number },
    signal?: AbortSignal,
  ) =>
    requestJson<SearchResults>("GET", `/api/search${queryString({ ...q, scope: "everything" })}`, undefined, {
      signal,
    }),
  memory: () => requestJson<MemoryStats>("GET", "/api/memory"),
  agentMd: () => requestJson<AgentMd>("GET", "/api/memory/agent_md"),
  writeAgentMd: (text: string, sha256: string) =>
    requestJson<AgentMd>("PUT", "/api/memory/agent_md", { text, sha256 }),
  addMemory: (text: string, scope?: "everything") =>
    requestJson<RememberReceipt>("POST", "/api/memory/remember", { text, scope }),
  /** Lists the summaries of all projects, which the page counts too. */
  summaries: (limit = 20) =>
    requestJson<{ summaries: StoredSummary[] }>(
      "GET",
      `/api/memory/summaries${queryString({ limit, scope: "everything" })}`,
    ),
};
