// Server-sent events over `fetch`, because `EventSource` cannot set headers. It reads one connection to its
// end; reconnecting is up to the caller.
import { sendRequest } from "./client";

/**
 * Milliseconds without data after which a connection counts as lost. The server sends a comment every five
 * seconds.
 */
export const SILENCE_MS = 15_000;

/** One server-sent event. */
export interface ServerEvent {
  event: string;
  id: string | null;
  data: string;
}

/**
 * Opens the stream and passes each event to `onEvent`. Returns when the server ends the stream, throws when
 * it fails.
 */
export async function readEvents(
  path: string,
  init: RequestInit & { signal: AbortSignal },
  onEvent: (event: ServerEvent) => void,
  onOpen: () => void = () => undefined,
): Promise<void> {
  const response = await sendRequest(path, init);
  const reader = response.body?.getReader();
  if (!reader) return;
  onOpen();
  const decoder = new TextDecoder();
  const parser = new EventStreamParser(onEvent);
  for (;;) {
    const read = await readWithTimeout(reader, init.signal);
    if (read.done) return;
    parser.push(decoder.decode(read.value, { stream: true }));
  }
}

async function readWithTimeout(reader: ReadableStreamDefaultReader<Uint8Array>, signal: AbortSignal) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("no data received")), SILENCE_MS);
  });
  try {
    return await Promise.race([reader.read(), timeout]);
  } catch (error) {
    if (!signal.aborted) void reader.cancel().catch(() => undefined);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Incremental parser of server-sent events. Chunks may be split anywhere. */
export class EventStreamParser {
  #partialLine = "";
  #event = "message";
  #id: string | null = null;
  #data: string[] = [];

  constructor(private readonly onEvent: (event: ServerEvent) => void) {}

  push(text: string): void {
    const lines = (this.#partialLine + text).split(/\r\n|\n|\r(?!$)/);
    this.#partialLine = lines.pop() ?? "";
    for (const line of lines) this.#processLine(line);
  }

  #processLine(line: string): void {
    if (line === "") {
      if (this.#data.length > 0)
        this.onEvent({ event: this.#event, id: this.#id, data: this.#data.join("\n") });
      this.#event = "message";
      this.#data = [];
      return;
    }
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.#event = value;
    else if (field === "id") this.#id = value;
    else if (field === "data") this.#data.push(value);
  }
}
