// A stream of server-sent events over fetch, for which alone a header can be set. It reads one connection and ends with it;
// trying again is the caller's.
import { send } from "./client";

/** Milliseconds without a byte after which a connection counts as lost; the server sends a comment every five seconds. */
export const SILENCE_MS = 15_000;

/** One event as it came. */
export interface ServerEvent {
  event: string;
  id: string | null;
  data: string;
}

/** Opens the stream and gives each event to `tell`; returns when it ends, throws when it fails. */
export async function follow(
  path: string,
  init: RequestInit & { signal: AbortSignal },
  tell: (event: ServerEvent) => void,
  opened: () => void = () => undefined,
): Promise<void> {
  const response = await send(path, init);
  const reader = response.body?.getReader();
  if (!reader) return;
  opened();
  const decoder = new TextDecoder();
  const parser = new Parser(tell);
  for (;;) {
    const read = await withinSilence(reader, init.signal);
    if (read.done) return;
    parser.push(decoder.decode(read.value, { stream: true }));
  }
}

async function withinSilence(reader: ReadableStreamDefaultReader<Uint8Array>, signal: AbortSignal) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silent = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("nothing was heard for a while")), SILENCE_MS);
  });
  try {
    return await Promise.race([reader.read(), silent]);
  } catch (error) {
    if (!signal.aborted) void reader.cancel().catch(() => undefined);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Puts events together from pieces of text that may end anywhere. */
export class Parser {
  private rest = "";
  private event = "message";
  private id: string | null = null;
  private data: string[] = [];

  constructor(private readonly tell: (event: ServerEvent) => void) {}

  push(text: string): void {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    for (const line of lines) this.line(line);
  }

  private line(line: string): void {
    if (line === "") {
      if (this.data.length > 0) this.tell({ event: this.event, id: this.id, data: this.data.join("\n") });
      this.event = "message";
      this.data = [];
      return;
    }
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    else if (field === "id") this.id = value;
    else if (field === "data") this.data.push(value);
  }
}
