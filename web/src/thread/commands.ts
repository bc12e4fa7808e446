// Slash commands of the composer: the list, completion and parsing. The page runs them. Pure.

export interface SlashCommand {
  name: string;
  /** The placeholder of the argument; empty if the command takes none. */
  argument: string;
  description: string;
}

const COMMANDS: readonly SlashCommand[] = [
  {
    name: "handoff",
    argument: "[goal]",
    description: "Continue in a new thread with a summary",
  },
  { name: "compact", argument: "[focus]", description: "Compact older messages" },
  { name: "uncompact", argument: "", description: "Undo the last compaction" },
  { name: "fork", argument: "", description: "Continue in a copy of this thread" },
  { name: "pin", argument: "[text]", description: "Keep a text in every request of this thread" },
  { name: "rename", argument: "[name]", description: "Rename this thread" },
  { name: "search", argument: "[words]", description: "Search this thread" },
];

/** Returns the commands that complete a text of a single word. */
export function completions(text: string): readonly SlashCommand[] {
  const prefix = /^\/([a-z]*)$/i.exec(text)?.[1];
  if (prefix === undefined) return [];
  return COMMANDS.filter(({ name }) => name.startsWith(prefix.toLowerCase()));
}

/** Returns true if the command's name is complete, so Enter runs it. */
export function isComplete(text: string, { name }: SlashCommand): boolean {
  return text.toLowerCase() === `/${name}`;
}

/**
 * Parses a command and its argument. Other texts that start with `/` are messages, and so is a command with
 * an argument it does not take.
 */
export function parseCommand(text: string): { command: SlashCommand; rest: string } | null {
  const [, name = "", rest = ""] = /^\/([a-z]+)(?:\s+([\s\S]*))?$/i.exec(text.trim()) ?? [];
  const command = COMMANDS.find((known) => known.name === name.toLowerCase());
  if (!command || (rest && !command.argument)) return null;
  return { command, rest: rest.trim() };
}
