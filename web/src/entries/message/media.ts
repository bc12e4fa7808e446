// What is shown of files in messages, and how they are fetched: with the token, as bytes that never become a page of this origin.
import { api } from "../../api/endpoints";
import { save } from "../../ui/save";

/** Pictures that a browser draws without running anything. */
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const PICTURE_BYTES_MAX = 8 * 1024 * 1024;

export interface Media {
  media_type: string;
  sha256?: string;
  bytes?: number;
}

/** Whether the file is drawn; every other one is offered as a download. */
export function isDrawn({ media_type, sha256, bytes }: Media): boolean {
  return sha256 !== undefined && PICTURES.includes(media_type) && (bytes ?? 0) <= PICTURE_BYTES_MAX;
}

/** `2.3 MB` */
export function size(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Fetches the picture and returns an address for it, which has to be given back. */
export async function picture(thread: string, { sha256 = "", media_type }: Media): Promise<string> {
  const bytes = await (await api.artifact(thread, sha256)).arrayBuffer();
  if (bytes.byteLength > PICTURE_BYTES_MAX) throw new Error("it is too large to be shown");
  return URL.createObjectURL(new Blob([bytes], { type: media_type }));
}

/** Saves the file on the reader's machine. */
export async function download(thread: string, { sha256 = "", media_type }: Media): Promise<void> {
  const bytes = await (await api.artifact(thread, sha256)).arrayBuffer();
  // Not under its own type: what is opened from here must not run as a page.
  const file = new Blob([bytes], { type: "application/octet-stream" });
  const ending = /^[a-z]+\/([a-z0-9]{1,8})$/.exec(media_type)?.[1] ?? "bin";
  save(file, `${sha256.slice(0, 12)}.${ending}`);
}
