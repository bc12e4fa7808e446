// One request to the server and what it answers or refuses. What endpoints there are is in `endpoints.ts`; streams are in
// `stream.ts`.
import type { Json } from "./types";

const TOKEN_KEY = "segue.token";

/** What the server refused, in its own words. */
export class ApiError extends Error {
  constructor(
    /** The HTTP status; 0 when the server could not be reached. */
    readonly status: number,
    /** One word for programs, such as `conflict`. */
    readonly code: string,
    detail: string,
    /** What can be done about it. */
    readonly hint: string | null = null,
  ) {
    super(detail);
  }
}

let token = localStorage.getItem(TOKEN_KEY);
let whenRefused: () => void = () => undefined;

/** Keeps the secret that requests show, in this browser. */
export function keepToken(secret: string | null): void {
  token = secret;
  if (secret) localStorage.setItem(TOKEN_KEY, secret);
  else localStorage.removeItem(TOKEN_KEY);
}

/** Says what happens when the server does not let us in. */
export function onRefused(then: () => void): void {
  whenRefused = then;
}

/** Sends a request as it is and returns an answer that is no failure. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token) headers.set("x-api-key", token);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The server cannot be reached.", "Is segue serve still running?");
  }
  if (response.ok) return response;
  if (response.status === 401) whenRefused();
  throw refusal(response.status, await response.json().catch(() => null));
}

/** Sends a request and reads the JSON it is answered with. */
export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  init: RequestInit = {},
): Promise<T> {
  const headers = { ...(body === undefined ? {} : { "content-type": "application/json" }), ...init.headers };
  const payload = body === undefined ? undefined : JSON.stringify(body);
  const response = await send(path, { ...init, method, headers, body: payload });
  const text = await response.text();
  // What is only taken notice of is answered with nothing, whatever the status.
  if (text === "") return undefined as T;
  const answer = JSON.parse(text) as T;
  // What takes long is answered with 200 before its outcome is known.
  const late = (answer as { __error__?: Refusal } | null)?.__error__;
  if (late) throw refusal(late.status ?? 500, late);
  return answer;
}

interface Refusal {
  detail?: Json;
  code?: string;
  hint?: string;
  status?: number;
}

function refusal(status: number, told: Refusal | null): ApiError {
  const detail = typeof told?.detail === "string" ? told.detail : `The server answered ${status}.`;
  return new ApiError(status, told?.code ?? "unknown", detail, told?.hint ?? null);
}

/** Puts values into a query; those that are undefined are left out. */
export function query(values: Record<string, string | number | boolean | undefined>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text ? `?${text}` : "";
}
