// What can be written after a `/` where one writes a message: which there are, what fits what is written so far, and what a
// written line asks for. What they do is the page's. Pure.

export interface Command {
  name: string;
  /** What may follow, as it is shown. */
  takes: string;
  does: string;
}

const COMMANDS: readonly Command[] = [
  { name: "handoff", takes: "[goal]", does: "Go on in a new thread that knows a summary of this one" },
  { name: "compact", takes: "[focus]", does: "Condense older messages for the model" },
  { name: "uncompact", takes: "", does: "Take the newest compaction back" },
  { name: "fork", takes: "", does: "Copy this thread and go on in the copy" },
  { name: "rename", takes: "[name]", does: "Give this thread a name" },
  { name: "search", takes: "[words]", does: "Search this thread" },
];

/** The commands that what is written so far may become; none once it is more than one word. */
export function completions(text: string): readonly Command[] {
  const begun = /^\/([a-z]*)$/i.exec(text)?.[1];
  if (begun === undefined) return [];
  return COMMANDS.filter(({ name }) => name.startsWith(begun.toLowerCase()));
}

/** Whether nothing of a command's word is left to complete: Enter then asks for it. */
export function isWhole(text: string, { name }: Command): boolean {
  return text.toLowerCase() === `/${name}`;
}

/** The command that is written, and what follows it. Anything else with a `/` is a message like any, as are words after a command
 *  that takes none. */
export function written(text: string): { command: Command; rest: string } | null {
  const [, name = "", rest = ""] = /^\/([a-z]+)(?:\s+([\s\S]*))?$/i.exec(text.trim()) ?? [];
  const command = COMMANDS.find((known) => known.name === name.toLowerCase());
  if (!command || (rest && !command.takes)) return null;
  return { command, rest: rest.trim() };
}
