// The state of the agent.md editor: the loaded file, the edited notes, and merging when the file changes on
// the server. Unsaved changes are stored in this tab.
import { ApiError } from "../api/client";
import { api } from "../api/endpoints";
import type { AgentMd } from "../api/types";
import { storeText, loadText } from "../app/storage";
import { notifyError, notify } from "../app/notices.svelte";
import {
  isSame,
  joinFile,
  mergeNotes,
  notesOf,
  splitFile,
  type AgentNotes,
  type AgentFileParts,
} from "./agentFile";

const DRAFT_KEY = "segue.agent_md";

interface UnsavedDraft {
  sha256: string;
  base: AgentNotes;
  notes: AgentNotes;
}

export class AgentFileStore {
  file = $state.raw<AgentMd | null>(null);
  parts = $state.raw<AgentFileParts | null>(null);
  notes = $state<AgentNotes>({ before: "", after: "" });
  problem = $state.raw<Error | null>(null);
  isSaving = $state(false);
  /** The other version, if both changed the same lines. */
  theirs = $state.raw<AgentMd | null>(null);

  readonly base = $derived(this.parts ? notesOf(this.parts) : { before: "", after: "" });
  readonly isDirty = $derived(!isSame(this.notes, this.base));
  readonly text = $derived(this.parts ? joinFile(this.parts, this.notes) : "");
  readonly bytes = $derived(new TextEncoder().encode(this.text).length);
  /** The reason why the file is read-only here. */
  readonly readOnlyReason = $derived.by(() => {
    if (!this.file) return null;
    if (this.file.is_cut) return "The file is too large to edit here.";
    if (this.file.text.includes("\ufffd"))
      return "The file has invalid UTF-8, which editing here would lose.";
    if (!this.parts) return "The tags of the section managed by Segue are invalid.";
    return null;
  });

  /** Loads the file and merges it into unsaved changes. */
  async load(): Promise<void> {
    try {
      this.#applyFile(await api.agentMd());
      this.problem = null;
    } catch (error) {
      this.problem = error instanceof Error ? error : new Error(String(error));
    }
  }

  /** Restores the unsaved changes of this tab. */
  restoreDraft(): void {
    const draft = loadDraft();
    if (!draft || !this.file || !this.parts || this.isDirty) return;
    const merged =
      draft.sha256 === this.file.sha256 ? draft.notes : mergeNotes(draft.base, draft.notes, this.base);
    if (merged) this.notes = merged;
    else {
      this.notes = draft.notes;
      this.theirs = this.file;
    }
    if (this.isDirty) notify("Unsaved changes to agent.md restored.");
    else this.storeDraft();
  }

  /** Stores the unsaved changes of this tab. */
  storeDraft(): void {
    if (this.file && this.isDirty) {
      const { sha256 } = this.file;
      const draft: UnsavedDraft = { sha256, base: this.base, notes: $state.snapshot(this.notes) };
      storeText("tab", DRAFT_KEY, JSON.stringify(draft));
    } else storeText("tab", DRAFT_KEY, null);
  }

  discard(): void {
    const discarded = $state.snapshot(this.notes);
    this.theirs = null;
    this.notes = { ...this.base };
    this.storeDraft();
    notify("Changes discarded.", {
      action: { label: "Undo", run: () => (this.notes = discarded) },
      ms: 10_000,
    });
  }

  async save(): Promise<void> {
    if (!this.file || !this.isDirty || this.isSaving || this.readOnlyReason || this.theirs) return;
    const savedText = this.text;
    this.isSaving = true;
    try {
      this.#applySaved(await api.writeAgentMd(savedText, this.file.sha256));
      notify("agent.md saved.");
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) await this.#resolveConflict();
      else notifyError("Could not save agent.md", error);
    } finally {
      this.isSaving = false;
    }
  }

  /** Resolves the conflict with the text of the editor. */
  keepMine(): void {
    if (!this.theirs) return;
    const myNotes = $state.snapshot(this.notes);
    this.#replaceFile(this.theirs);
    this.notes = myNotes;
    this.theirs = null;
  }

  /** Resolves the conflict with the other version. */
  takeTheirs(): void {
    if (!this.theirs) return;
    const myNotes = $state.snapshot(this.notes);
    this.#replaceFile(this.theirs);
    this.theirs = null;
    this.storeDraft();
    notify("The editor has the other version.", {
      action: { label: "Restore mine", run: () => (this.notes = myNotes) },
      ms: 10_000,
    });
  }

  #replaceFile(file: AgentMd): void {
    this.file = file;
    this.parts = splitFile(file.text, file.block);
    this.notes = { ...this.base };
  }

  /** Applies a saved file while the person may have typed on. */
  #applySaved(file: AgentMd): void {
    const [base, myNotes] = [this.base, $state.snapshot(this.notes)];
    const parts = splitFile(file.text, file.block);
    const stored = parts ? notesOf(parts) : base;
    this.file = file;
    this.parts = parts;
    // Text typed during the request is still unsaved.
    this.notes = isSame(myNotes, stored) ? stored : myNotes;
    this.storeDraft();
  }

  #applyFile(file: AgentMd): void {
    if (file.sha256 === this.file?.sha256) return;
    if (!this.file || !this.isDirty) this.#replaceFile(file);
    else this.#rebase(file);
  }

  async #resolveConflict(): Promise<void> {
    try {
      const file = await api.agentMd();
      this.#rebase(file);
      if (!this.theirs)
        notify("agent.md was changed elsewhere.", {
          hint: "The changes were merged. Review them and save.",
        });
    } catch (error) {
      notifyError("Could not save or load agent.md", error);
    }
  }

  /** Merges the unsaved changes into another version. */
  #rebase(file: AgentMd): void {
    const [base, myNotes] = [this.base, $state.snapshot(this.notes)];
    const parts = splitFile(file.text, file.block);
    const merged = parts && mergeNotes(base, myNotes, notesOf(parts));
    if (!merged) {
      this.theirs = file;
      return;
    }
    this.#replaceFile(file);
    this.notes = merged;
    this.storeDraft();
  }
}

function loadDraft(): UnsavedDraft | null {
  try {
    return JSON.parse(loadText("tab", DRAFT_KEY) ?? "null") as UnsavedDraft | null;
  } catch {
    return null;
  }
}
