// What is being written in agent.md: the file as it was read, the notes as they are in the fields, and what becomes of them
// when the file changes underneath. Nothing that was written is lost: what is not saved stays in this tab.
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";
import type { AgentMd } from "../api/types";
import { keepText, keptText } from "../app/kept";
import { failed, notify } from "../app/notices.svelte";
import { isSame, join, mergedNotes, notesOf, split, type Notes, type Parts } from "./block";

const DRAFT_KEY = "segue.agent_md";

interface Draft {
  sha256: string;
  base: Notes;
  notes: Notes;
}

export class Editor {
  file = $state.raw<AgentMd | null>(null);
  parts = $state.raw<Parts | null>(null);
  notes = $state<Notes>({ before: "", after: "" });
  problem = $state.raw<Error | null>(null);
  isSaving = $state(false);
  /** The file as somebody else left it, when both changed the same lines. */
  theirs = $state.raw<AgentMd | null>(null);

  readonly base = $derived(this.parts ? notesOf(this.parts) : { before: "", after: "" });
  readonly isDirty = $derived(!isSame(this.notes, this.base));
  readonly text = $derived(this.parts ? join(this.parts, this.notes) : "");
  readonly bytes = $derived(new TextEncoder().encode(this.text).length);
  /** Why it can only be read here. */
  readonly locked = $derived.by(() => {
    if (!this.file) return null;
    if (this.file.is_cut) return "The file is too large to be changed here.";
    if (this.file.text.includes("\ufffd"))
      return "The file holds bytes that are no text; a change here would lose them.";
    if (!this.parts) return "The tags around the part that Segue keeps are not in order.";
    return null;
  });

  /** Reads the file; what is being written stays, on top of it. */
  async load(): Promise<void> {
    try {
      this.meet(await api.agentMd());
      this.problem = null;
    } catch (error) {
      this.problem = error instanceof Error ? error : new Error(String(error));
    }
  }

  /** Takes up what was left unsaved in this tab. */
  restore(): void {
    const draft = readDraft();
    if (!draft || !this.file || !this.parts || this.isDirty) return;
    const both =
      draft.sha256 === this.file.sha256 ? draft.notes : mergedNotes(draft.base, draft.notes, this.base);
    if (both) this.notes = both;
    else {
      this.notes = draft.notes;
      this.theirs = this.file;
    }
    if (this.isDirty) notify("Your unsaved changes of agent.md are here again.");
    else this.keep();
  }

  /** Keeps what is unsaved in this tab. */
  keep(): void {
    if (this.file && this.isDirty) {
      const { sha256 } = this.file;
      const draft: Draft = { sha256, base: this.base, notes: $state.snapshot(this.notes) };
      keepText("tab", DRAFT_KEY, JSON.stringify(draft));
    } else keepText("tab", DRAFT_KEY, null);
  }

  discard(): void {
    const left = $state.snapshot(this.notes);
    this.theirs = null;
    this.notes = { ...this.base };
    this.keep();
    notify("Your changes are thrown away.", {
      action: { label: "Undo", run: () => (this.notes = left) },
      ms: 10_000,
    });
  }

  async save(): Promise<void> {
    if (!this.file || !this.isDirty || this.isSaving || this.locked || this.theirs) return;
    const saved = this.text;
    this.isSaving = true;
    try {
      this.saved(await api.writeAgentMd(saved, this.file.sha256));
      notify("agent.md is saved.");
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) await this.outrun();
      else failed("agent.md was not saved", error);
    } finally {
      this.isSaving = false;
    }
  }

  /** Goes on with what is in the fields, in the place of what the other wrote. */
  keepMine(): void {
    if (!this.theirs) return;
    const mine = $state.snapshot(this.notes);
    this.take(this.theirs);
    this.notes = mine;
    this.theirs = null;
  }

  /** Goes on with what the other wrote. */
  takeTheirs(): void {
    if (!this.theirs) return;
    const mine = $state.snapshot(this.notes);
    this.take(this.theirs);
    this.theirs = null;
    this.keep();
    notify("The other text is in the editor.", {
      action: { label: "Bring mine back", run: () => (this.notes = mine) },
      ms: 10_000,
    });
  }

  private take(file: AgentMd): void {
    this.file = file;
    this.parts = split(file.text, file.block);
    this.notes = { ...this.base };
  }

  /** What is stored, while more may have been written. */
  private saved(file: AgentMd): void {
    const [base, mine] = [this.base, $state.snapshot(this.notes)];
    const parts = split(file.text, file.block);
    const stored = parts ? notesOf(parts) : base;
    this.file = file;
    this.parts = parts;
    // What was written while it was being saved is not saved yet.
    this.notes = isSame(mine, stored) ? stored : mine;
    this.keep();
  }

  private meet(file: AgentMd): void {
    if (file.sha256 === this.file?.sha256) return;
    if (!this.file || !this.isDirty) this.take(file);
    else this.rebase(file);
  }

  private async outrun(): Promise<void> {
    try {
      const file = await api.agentMd();
      this.rebase(file);
      if (!this.theirs)
        notify("agent.md had become another text.", {
          hint: "Both changes are in the editor: look at them and save.",
        });
    } catch (error) {
      failed("agent.md was not saved, and cannot be read", error);
    }
  }

  /** Puts what is being written on top of another text. */
  private rebase(file: AgentMd): void {
    const [base, mine] = [this.base, $state.snapshot(this.notes)];
    const parts = split(file.text, file.block);
    const both = parts && mergedNotes(base, mine, notesOf(parts));
    if (!both) {
      this.theirs = file;
      return;
    }
    this.take(file);
    this.notes = both;
    this.keep();
  }
}

function readDraft(): Draft | null {
  try {
    return JSON.parse(keptText("tab", DRAFT_KEY) ?? "null") as Draft | null;
  } catch {
    return null;
  }
}
