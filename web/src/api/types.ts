// The shapes of the HTTP API that the page reads, as /openapi.json has them. Nothing here is made up by the page.

/** How a thread stands, in the words of the list. */
export type ThreadState = "running" | "needs_you" | "stopped" | "idle" | "error";

/** A thread in the list. */
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
  /** What the parent is called. */
  parent_title?: string | null;
  handoff_id: string | null;
  pending_handoff_id: string | null;
  created_at: string;
  updated_at: string;
  /** What sort of session it was imported from. */
  source?: string | null;
}

/** One task of the agent's list. */
export interface Todo {
  content: string;
  status: "pending" | "in_progress" | "completed";
}

/** One thread, with what a page that shows it has to know beside its messages. */
export interface ThreadDetail extends ThreadRow {
  /** What waits for a person. */
  interrupts: Interrupt[];
  /** The folder of the calls that wait; absent where none do. */
  workspace?: CallWorkspace | null;
  todos: Todo[];
  active_run: { run_id: string; status: string; created_at: string } | null;
  /** How many runs wait in line. */
  pending_runs: number;
  /** The newest run, and why it failed if it did. */
  last_run: {
    run_id: string;
    status: string;
    error: string | null;
    hint: string | null;
    created_at: string;
  } | null;
}

/** A page of the list. */
export interface ThreadRows {
  threads: ThreadRow[];
  total: number;
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** One piece of a message's content. */
export type Block =
  | { type: "text"; text: string }
  | { type: "thinking"; text: string }
  | { type: "tool_call"; id: string; name: string; args: JsonObject }
  | { type: "media"; media_type: string; sha256?: string; bytes?: number }
  | { type: "opaque"; [key: string]: Json };

export interface Usage {
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
  content: Block[];
}
export interface AiEntry extends EntryBase {
  type: "ai";
  content: Block[];
  model?: string;
  usage?: Usage;
  stop?: string;
  /** Whether it was cut off: stopped, killed or failed midway. */
  incomplete?: boolean;
  duration_ms?: number;
  /** Absent where there is no feedback to give. */
  feedback?: RunFeedback | null;
}
export interface ToolEntry extends EntryBase {
  type: "tool";
  call_id: string;
  name?: string;
  content: Block[];
  status: "success" | "error";
  duration_ms?: number;
  /** The call, where it is on another page. */
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
export interface UndoneEntry extends EntryBase {
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
/** An entry of a history. */
export type Entry =
  | HumanEntry
  | AiEntry
  | ToolEntry
  | MarkerEntry
  | UndoneEntry
  | CompactionFailedEntry
  | ArchivedEntry
  | ImportedEntry;

export interface HistoryPage {
  thread_id: string;
  source: string;
  entries: Entry[];
  has_more: boolean;
  has_more_before: boolean;
  has_more_after: boolean;
  first_seq: number | null;
  last_seq: number | null;
}

/** What the next request to the model would hold. */
export interface Context {
  thread_id: string;
  model: string | null;
  window_tokens: number | null;
  parts: { name: string; tokens: number }[];
  tokens: number;
  message_count: number;
  trigger_tokens: number | null;
  condensed: { marker_seq: number; last_seq: number; part: string } | null;
}

/** An event of the journal, as a trace shows it. */
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
  /** What helps to decide: `call_id`, `command` or `diff`, `warnings`, `rule`, `subagent`. */
  details?: JsonObject;
}
export interface ReviewConfig {
  action_name: string;
  allowed_decisions: string[];
}
/** A question that waits for a person. */
export interface Interrupt {
  id: string;
  value: {
    middleware_source?: string;
    action_requests: ActionRequest[];
    review_configs: ReviewConfig[];
    /** The folder in which the calls were proposed, and in which they are made once approved. */
    workspace?: string | null;
  };
}
/** The folder of calls that wait. */
export interface CallWorkspace {
  path: string;
  /** Whether it exists on the server's machine. */
  exists: boolean;
  /** The folder the server works in. */
  /** The folder to go on in; none where the caller's agent has no folder. */
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
  verified: boolean;
  unfound?: string[];
}
export interface CarryOver {
  last_user_request: string | null;
  todos: (string | JsonObject)[];
  files_read: string[];
  files_modified: string[];
  commands: string[];
  errors: string[];
}
export interface HandoffSummary {
  title: string;
  tldr: string;
  body: SummaryItem[];
  model: string;
  tokens_used: number;
  iteration: number;
  carry_over: CarryOver;
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
  summary_md: string;
  summary_sha256: string;
  feedback: string | null;
  coverage: { messages: number; verbatim: number; summarized: number; truncated: number; excluded: number };
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
export interface HandoffReview {
  handoff: Handoff;
  proposals: Proposal[];
  pending: PendingHandoff | null;
}
export interface DecidedHandoff {
  outcome: Handoff["outcome"];
  child_thread_id: string | null;
  handoff: Handoff;
  proposal: Proposal;
  next: PendingHandoff | null;
  run: { run_id: string; status: string; error: string | null };
}

export interface Relative {
  thread_id: string;
  parent_id: string | null;
  parent_kind: "handoff" | "fork" | null;
  handoff_id: string | null;
  depth: number;
  name: string | null;
  first_prompt: string | null;
  state: ThreadState;
  message_count: number;
  created_at: string;
  updated_at: string;
}
export interface Lineage {
  thread_id: string;
  root_thread_id: string;
  threads: Relative[];
  is_complete: boolean;
}

interface Beside {
  seq: number;
  speaker: string;
  tool?: string;
  text: string;
}
interface HitBase {
  created_at: string;
  score: number;
  snippet: string;
}
export type Hit = HitBase &
  (
    | {
        kind: "message";
        thread_id: string;
        seq: number;
        speaker: string;
        tool?: string;
        before: Beside | null;
        after: Beside | null;
      }
    | { kind: "summary"; summary_id: string; thread_id: string | null; first_turn: number; last_turn: number }
    | { kind: "handoff"; handoff_id: string; parent_thread_id: string; child_thread_id: string }
    | { kind: "item"; namespace: string[]; key: string }
  );
export interface SearchResults {
  words: string[];
  hits: Hit[];
}

export interface MemoryStats {
  agent_md: { exists: boolean; bytes: number; bytes_max: number; problem: string | null };
  turns: { active: number; summarised: number; withdrawn: number };
  summaries: number;
  items: number;
  due: number;
}
export interface AgentMd {
  text: string;
  sha256: string;
  block: string | null;
  is_cut: boolean;
}

/** What became of a sentence that was to be kept. */
export interface Remembered {
  line: string;
  was_known: boolean;
  /** Secrets that were kept out of it. */
  withheld: number;
  bytes: number;
  bytes_max: number;
}
/** A summary that stands for old turns. */
export interface StoredSummary {
  id: string;
  agent_id: string;
  summary_text: string;
  turn_range_start: number;
  turn_range_end: number;
  created_at: string;
  /** The thread of its first turn; `null` when that was deleted. */
  thread_id: string | null;
  /** The place of its first turn there. */
  first_seq?: number | null;
  /** How many turns it stands for. */
  turns: number;
}

/** A run, as the Agent Server API has it. */
export interface Run {
  run_id: string;
  thread_id: string;
  status: "pending" | "running" | "success" | "error" | "interrupted" | "timeout";
  created_at: string;
  updated_at: string;
  metadata: JsonObject;
  /** What it was asked with; a message is in here until the run begins. */
  kwargs?: { input: { messages?: { content: Json }[] } | null };
}

/** Who answers here. */
export interface AgentInfo {
  assistant_id: string;
  user_id: string | null;
  workspace: string | null;
  model: string | null;
  version: string;
}

/** Which models there are to work with. */
export interface Models {
  /** `provider/name`; null when none is set. */
  default: string | null;
  default_from: string | null;
  /** Why the default cannot be used. */
  problem: string | null;
  providers: { provider: string; configured: boolean; reason: string | null }[];
}

/** What became of a session file. */
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
