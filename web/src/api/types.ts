// The types of the HTTP API, as specified in /openapi.json.

/** The state of a thread in the thread list. */
export type ThreadState = "running" | "needs_you" | "stopped" | "idle" | "error";

/** A thread in the thread list. */
export interface ThreadRow {
  thread_id: string;
  name: string | null;
  first_prompt: string | null;
  title: string | null;
  state: ThreadState;
  status: "idle" | "busy" | "interrupted" | "error";
  message_count: number;
  last_seq: number;
  tokens: number | null;
  parent_id: string | null;
  parent_kind: "handoff" | "fork" | "subagent" | null;
  /** The title of the parent thread. */
  parent_title?: string | null;
  handoff_id: string | null;
  pending_handoff_id: string | null;
  created_at: string;
  updated_at: string;
  /** The format of the session that the thread was imported from. */
  source?: string | null;
  /** Present if the thread has only the beginning of an imported session. */
  incomplete_import?: IncompleteImport | null;
}

/** The part of an interrupted import that is stored. */
export interface IncompleteImport {
  messages: number;
  messages_total: number | null;
  whole_thread_id: string | null;
  /** The counts and how to complete the thread, as one line of text. */
  notice: string;
}

/** One task of the agent's task list. */
export interface Todo {
  content: string;
  status: "pending" | "in_progress" | "completed";
}

/** One thread with everything its page needs besides the messages. */
export interface ThreadDetail extends ThreadRow {
  /** The threads that were handed off into it after its parent. */
  merged_parents?: MergedParent[];
  /** The questions that wait for an answer. */
  interrupts: Interrupt[];
  /** The folder of the pending calls; absent if there are none. */
  workspace?: CallWorkspace | null;
  todos: Todo[];
  active_run: { run_id: string; status: string; created_at: string } | null;
  /** The number of queued runs. */
  pending_runs: number;
  /** The newest run, with the error if it failed. */
  last_run: {
    run_id: string;
    status: string;
    error: string | null;
    hint: string | null;
    created_at: string;
  } | null;
}

/** A page of the thread list. */
export interface ThreadRows {
  threads: ThreadRow[];
  /** The number of threads that match, or at which the server stopped counting. */
  total: number;
  is_total_exact: boolean;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** One content block of a message. */
export type ContentBlock =
  | { type: "text"; text: string }
  | { type: "thinking"; text: string }
  | { type: "tool_call"; id: string; name: string; args: JsonObject }
  | { type: "media"; media_type: string; sha256?: string; bytes?: number }
  | { type: "opaque"; [key: string]: Json };

export interface TokenUsage {
  input_tokens: number;
  output_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
}

export interface RunFeedback {
  run_id: string;
  rating: 1 | -1;
  comment?: string | null;
  created_at: string;
  updated_at: string;
}

interface EntryBase {
  id: string;
  seq: number;
  run_id: string | null;
  created_at: string;
  superseded?: boolean;
}

export interface HumanEntry extends EntryBase {
  type: "human";
  content: ContentBlock[];
}
export interface AiEntry extends EntryBase {
  type: "ai";
  content: ContentBlock[];
  model?: string;
  usage?: TokenUsage;
  stop?: string;
  /** True if the message was cut off because its run was stopped, killed or failed. */
  incomplete?: boolean;
  duration_ms?: number;
  /** Absent if the entry cannot be rated. */
  feedback?: RunFeedback | null;
}
export interface ToolEntry extends EntryBase {
  type: "tool";
  call_id: string;
  name?: string;
  content: ContentBlock[];
  status: "success" | "error";
  duration_ms?: number;
  /** The call, if it is not on this page of the history. */
  call?: { seq: number; id: string; name: string; args: JsonObject };
}
export interface MarkerEntry extends EntryBase {
  type: "summary_marker";
  replaced_count: number;
  kept_count: number;
  first_seq: number;
  last_seq: number;
  tokens_before: number;
  tokens_after: number;
  trigger: "auto" | "manual" | "overflow";
  model: string;
  summary: string;
  focus?: string;
  previous_seq?: number;
  duration_ms: number;
}
export interface CompactionUndoneEntry extends EntryBase {
  type: "summary_undone";
  marker_seq: number;
}
export interface CompactionFailedEntry extends EntryBase {
  type: "compaction_failed";
  trigger: string;
  reason: string;
}
export interface ArchivedEntry extends EntryBase {
  type: "turns_archived";
  turn_count: number;
  first_seq: number;
  last_seq: number;
  reason: string;
  summary: string;
  model: string;
  summary_id: string;
}
export interface ImportedEntry extends EntryBase {
  type: "imported_boundary" | "imported_summary";
  text: string;
}
/** Something that happened to a thread besides its messages. */
export interface AuditEntry extends EntryBase {
  type:
    | "handoff_requested"
    | "handoff_refined"
    | "handoff_edited"
    | "handoff_accepted"
    | "handoff_merged"
    | "handoff_declined"
    | "handoff_previewed"
    | "handoff_failed"
    | "handoff_expired"
    | "tool_call_decided"
    | "thread_renamed"
    | "thread_rewound"
    | "pins_changed"
    | "run_failed";
  /** One sentence that says what happened and what decided it. */
  text: string;
  /** The content of the event. */
  details: JsonObject;
}
/** An event whose stored form is damaged, so that its content is not shown. */
export interface DamagedEntry extends EntryBase {
  type: "event_damaged";
  /** One sentence that says so. */
  text: string;
}

/** An entry of the history. */
export type HistoryEntry =
  | HumanEntry
  | AiEntry
  | ToolEntry
  | MarkerEntry
  | CompactionUndoneEntry
  | CompactionFailedEntry
  | ArchivedEntry
  | ImportedEntry
  | AuditEntry
  | DamagedEntry;

export interface HistoryPage {
  thread_id: string;
  source: string;
  entries: HistoryEntry[];
  has_more: boolean;
  has_more_before: boolean;
  has_more_after: boolean;
  first_seq: number | null;
  last_seq: number | null;
}

/** The estimated content of the next request to the model. */
export interface ContextUsage {
  thread_id: string;
  model: string | null;
  window_tokens: number | null;
  parts: { name: string; tokens: number }[];
  tokens: number;
  message_count: number;
  trigger_tokens: number | null;
  condensed: { marker_seq: number; last_seq: number; part: string } | null;
  /** The conversation without instructions and tools. */
  conversation: { tokens: number };
}

/** An event of the journal. */
export interface JournalEvent {
  thread_id: string;
  seq: number;
  event_id: string;
  run_id: string | null;
  event_type: string;
  category: string;
  content: JsonObject;
  metadata: JsonObject | null;
  created_at: string;
}

export interface ActionRequest {
  name: string;
  description: string;
  args: JsonObject;
  /**
   * Additional information for the reviewer: `call_id`, `command` or `diff`, `warnings`, `rule`, `subagent`.
   */
  details?: JsonObject;
}
export interface ReviewConfig {
  action_name: string;
  allowed_decisions: string[];
}
/** A question that waits for an answer. */
export interface Interrupt {
  id: string;
  value: {
    middleware_source?: string;
    action_requests: ActionRequest[];
    review_configs: ReviewConfig[];
    /** The folder in which the calls were proposed, and in which they run once approved. */
    workspace?: string | null;
  };
}
/** The folder of the pending calls. */
export interface CallWorkspace {
  path: string;
  /** True if the folder exists on the server. */
  exists: boolean;
  /** The server's own folder, which the thread can be moved to. Null if the agent has none. */
  server_path: string | null;
}
/** The answer to one action request. */
export type Decision =
  | { type: "approve"; summary_sha256?: string; args?: JsonObject }
  | { type: "edit"; edited_action: { name: string; args: JsonObject } }
  | { type: "reject"; message?: string }
  | { type: "respond"; message: string }
  | { type: "preview" };

export type SummaryKind = "objective" | "progress" | "decision" | "next_step" | "blocker" | "artifact";
export interface SummaryItem {
  kind: SummaryKind;
  text: string;
  refs: number[];
  /** The references of each line of the text, if they are known. */
  line_refs?: number[][];
  verified: boolean;
  unfound?: string[];
  /** References of the draft that name no message. They are not among `refs`. */
  false_refs?: number[];
}
/** A standing rule of the user and the messages that state it. */
export interface Rule {
  text: string;
  refs: number[];
}
export interface CarriedFacts {
  /** True if the Markdown of the proposal contains the facts. It does not in proposals of earlier versions. */
  is_in_markdown?: boolean;
  rules?: Rule[];
  /** The pins of the parent, with the messages that they quote. */
  pins?: { text: string; author: "user" | "assistant"; refs: number[] }[];
  last_user_request: string | null;
  todos: (string | JsonObject)[];
  files: { changed: string[]; read: string[]; deleted: string[] };
  /** The names that the next turns will probably use. */
  in_use: string[];
  commands: string[];
  errors: string[];
  /** Tool calls of the thread that wait for approval. */
  pending_approvals?: string[];
}
/** An inclusive range of positions. */
export type SeqRange = [first: number, last: number];
/** The use of a message in the text of a summary, the strongest first. */
export type MessageUse = "quoted" | "represented" | "read" | "scanned" | "unread";
/** The ranges of each use. Empty ones are missing, in summaries of earlier versions all. */
export type CoverageRanges = { first_seq: number; last_seq: number } & Partial<
  Record<MessageUse, SeqRange[]>
>;
/** An item of the draft that the text leaves out or shortens. */
export interface LeftOutItem {
  item: SummaryItem;
  reason: "too_many" | "too_long" | "shortened" | "inherited" | "last_answer";
}
/** Entries of a section of the facts that the text only counts or shortens. */
export interface LeftOutFacts {
  section: string;
  entries: string[];
  reason: "too_many" | "too_long" | "shortened";
}
/** A part of the conversation to which nothing in the text refers. */
export interface ConversationTopic {
  first_seq: number;
  last_seq: number;
  messages: number;
  tokens: number;
  request: string;
  /** The beginning of the last answer, if there is one. */
  answer?: string | null;
  /** The text of the item that adding the topic puts into the summary; missing in drafts of earlier versions. */
  item_text?: string;
}
/** A note about a standing rule: the text lost it, or one of its lines may contradict it. */
export interface RuleNote {
  rule: Rule;
  problem: { kind: "lost" } | { kind: "contradicted"; line: string };
}
/** Notes for the reviewer, which are no part of the text. */
export interface ReviewNotes {
  title_unfound?: string[];
  tldr_unfound?: string[];
  /** Names that the user wrote and that the covered messages do not contain. */
  names_by_user?: string[];
  left_out?: LeftOutItem[];
  left_out_facts?: LeftOutFacts[];
  topics?: ConversationTopic[];
  /** The lines that tell an open task as done. */
  done_task_claims?: { task: string; line: string }[];
  /** The parts of a long conversation that the model could not summarize. */
  unsummarized_parts?: { first_seq: number; last_seq: number; reason: string }[];
  rules?: RuleNote[];
}
export interface HandoffSummary {
  title: string;
  tldr: string;
  body: SummaryItem[];
  model: string;
  tokens_used: number;
  iteration: number;
  coverage: CoverageRanges;
  carried: CarriedFacts;
  notes?: ReviewNotes;
  created_at: string;
}
export interface Handoff {
  handoff_id: string;
  assistant_id: string;
  parent_thread_id: string;
  child_thread_id: string | null;
  status: string;
  outcome: "pending" | "accepted" | "declined" | "previewed" | "failed" | "expired";
  iteration: number;
  goal: string | null;
  initiated_by: "user" | "agent";
  preview_only: boolean;
  /** The thread to which an acceptance adds the summary; null if it creates one. */
  into: string | null;
  messages: number | null;
  accepted_sha256: string | null;
  note: string | null;
  created_at: string;
  updated_at: string;
}
export interface ListedHandoff extends Handoff {
  title: string | null;
  thread_name: string | null;
}
export interface Proposal {
  iteration: number;
  summary_json: HandoffSummary;
  package_md: string;
  summary_sha256: string;
  feedback: string | null;
  coverage: {
    messages: number;
    verbatim: number;
    summarized: number;
    truncated: number;
    excluded: number;
    /** The number of messages of each use; null for a summary of an earlier version. */
    uses: Record<MessageUse, number> | null;
  };
  unverified: { index: number; text: string; unfound: string[] }[];
  diff: string | null;
  created_at: string;
}
export interface HandoffCost {
  draft_tokens: number;
  draft_dollars: number | null;
  first_turn_tokens: number | null;
  first_turn_dollars: number | null;
  continuing_tokens: number | null;
  continuing_dollars: number | null;
}
/** The model calls that summarize the parts of a long conversation before its draft. */
export interface PartsEstimate {
  calls: number;
  tokens_per_call: number;
  dollars: number | null;
  model: string | null;
  /** A sentence about the calls; null if there are none. */
  notice: string | null;
}
export interface PendingHandoff {
  handoff: Handoff;
  interrupt: Interrupt;
  proposal: Proposal;
  allowed_decisions: string[];
  uncovered_messages: number;
  remaining_refinements: number;
  problem: string | null;
  unused_feedback: string | null;
  is_new: boolean;
  cost: HandoffCost;
}
/** One question about the work, answered from a summary alone. */
export interface ContinuityProbe {
  kind: string;
  question: string;
  expected: string;
  seq: number | null;
  answer: string | null;
  passed: boolean;
  judged_by: "rules" | "model";
}
/** What a summary alone answers about the work. */
export interface ContinuityReport {
  summary_sha256: string;
  model: string | null;
  tokens: number;
  dollars: number | null;
  problem: string | null;
  passed: number;
  probes: ContinuityProbe[];
  feedback: string | null;
}
/** A line of a summary that later work contradicts. */
export interface StaleLine {
  line: string;
  number: number;
  reason: string;
  text: string;
  thread_id: string;
  seq: number;
  /** The line to put in its place; null to remove it. */
  replacement: string | null;
  /** The other lines that the change removes. */
  also_removed: string[];
  /** The lines that the change puts in their place. */
  also_added: string[];
}
/** A change of one line of a summary. */
export type LineUpdate = Pick<StaleLine, "line" | "number" | "replacement"> & { summary_sha256: string };
/** A summary that a child thread is sent. */
export interface ChildPackage {
  handoff_id: string;
  summary_sha256: string;
  parent_thread_id: string;
  proposal: Proposal;
  stale: StaleLine[];
}
export interface HandoffReview {
  handoff: Handoff;
  proposals: Proposal[];
  pending: PendingHandoff | null;
}
export interface DecidedHandoff {
  outcome: Handoff["outcome"];
  child_thread_id: string | null;
  /** A first message to offer in the child thread. */
  suggested_message: string | null;
  /** What an accepted handoff has not written yet, as a text; null if nothing is missing. */
  incomplete_acceptance: string | null;
  handoff: Handoff;
  proposal: Proposal;
  next: PendingHandoff | null;
  run: { run_id: string; status: string; error: string | null };
}

/** A thread that was handed off into a child that another thread's handoff had created. */
export interface MergedParent {
  thread_id: string;
  handoff_id: string;
  title: string | null;
}
export interface LineageThread {
  thread_id: string;
  parent_id: string | null;
  parent_kind: "handoff" | "fork" | null;
  handoff_id: string | null;
  merged_parents?: MergedParent[];
  depth: number;
  name: string | null;
  first_prompt: string | null;
  state: ThreadState;
  message_count: number;
  created_at: string;
  updated_at: string;
}
export interface ThreadLineage {
  thread_id: string;
  root_thread_id: string;
  threads: LineageThread[];
  is_complete: boolean;
}

interface AdjacentMessage {
  seq: number;
  speaker: string;
  tool?: string;
  text: string;
}
interface SearchHitBase {
  created_at: string;
  score: number;
  snippet: string;
  /** How the hit was found; missing means by its words. */
  matched_by?: "words" | "meaning";
}
export type SearchHit = SearchHitBase &
  (
    | {
        kind: "message";
        thread_id: string;
        seq: number;
        speaker: string;
        tool?: string;
        before: AdjacentMessage | null;
        after: AdjacentMessage | null;
      }
    | { kind: "summary"; summary_id: string; thread_id: string | null; first_turn: number; last_turn: number }
    | { kind: "handoff"; handoff_id: string; parent_thread_id: string; child_thread_id: string }
    | { kind: "item"; namespace: string[]; key: string }
  );
/** Messages of the searched threads that the server has not indexed yet, so that they were not searched. */
export interface IndexBacklog {
  messages: number;
  threads: number;
}
/** The way in which a search compared meaning. */
export type MeaningComparison =
  { state: "off" } | { state: "compared"; missing: number } | { state: "unavailable"; reason: string };
export interface SearchResults {
  words: string[];
  not_indexed: IndexBacklog;
  meaning: MeaningComparison;
  hits: SearchHit[];
}

export interface MemoryStats {
  agent_md: { exists: boolean; bytes: number; bytes_max: number; problem: string | null };
  turns: { active: number; summarised: number; withdrawn: number };
  summaries: number;
  items: number;
  facts_to_review: number;
  due: number;
}
export interface AgentMd {
  text: string;
  sha256: string;
  block: string | null;
  is_cut: boolean;
}

/** What a text would become if it were accepted. */
export interface EditPreview extends Proposal {
  /** The given Markdown with the rules that it has lost; null if it has lost none. */
  restored_md: string | null;
}
/** The result of adding a sentence to agent.md. */
export interface RememberReceipt {
  line: string;
  /** The path of the project whose conversations see the note; null for those of all projects. */
  project: string | null;
  was_known: boolean;
  /** The number of secrets that were redacted. */
  withheld: number;
  bytes: number;
  bytes_max: number;
}
/** A text that every model request of its thread contains word for word. */
export interface Pin {
  number: number;
  text: string;
  author: "user" | "assistant";
  /** The quoted message; null for a text that the user wrote and for a pin of an earlier thread. */
  message_seq: number | null;
  pinned_at: string;
  tokens: number;
}
/** A text or a message to pin. */
export type PinRequest = { text: string } | { message_seq: number };
/** The result of pinning something. */
export interface PinReceipt {
  pin: Pin;
  was_pinned: boolean;
  /** The number of secrets that were redacted. */
  withheld: number;
  pins: Pin[];
}
/** A summary of old messages in medium-term memory. */
export interface StoredSummary {
  id: string;
  agent_id: string;
  summary_text: string;
  turn_range_start: number;
  turn_range_end: number;
  created_at: string;
  /** The thread of the first message, or null if it was deleted. */
  thread_id: string | null;
  /** The position of the first message in its thread. */
  first_seq?: number | null;
  /** The number of messages that the summary covers. */
  turns: number;
}

/** A run, as defined by the Agent Server API. */
export interface Run {
  run_id: string;
  thread_id: string;
  status: "pending" | "running" | "success" | "error" | "interrupted" | "timeout";
  created_at: string;
  updated_at: string;
  metadata: JsonObject;
  /** The input of the run. A message is only here until the run starts. */
  kwargs?: { input: { messages?: { content: Json }[] } | null };
}

/** The agent of this server. */
export interface AgentInfo {
  assistant_id: string;
  user_id: string | null;
  workspace: string | null;
  model: string | null;
  version: string;
}

/** The models that can be used. */
export interface ModelCatalog {
  /** The default model as `provider/name`, or null if none is set. */
  default: string | null;
  default_from: string | null;
  /** The reason why the default model cannot be used. */
  problem: string | null;
  providers: { provider: string; configured: boolean; reason: string | null }[];
}

/** The result of importing a session file. */
export interface ImportReport {
  threads: {
    thread_id: string;
    name: string | null;
    first_prompt: string | null;
    format: string;
    events_new: number;
    events_total: number;
    is_new: boolean;
  }[];
  problems: { line: number | null; reason: string }[];
  bytes: number;
}
