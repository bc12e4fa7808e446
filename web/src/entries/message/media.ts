// Files in messages: the types that are shown inline, and loading with the token. The bytes never become a
// document of this origin.
import { api } from "../../api/endpoints";
import { saveFile } from "../../ui/saveFile";

/** Image types that a browser renders without running scripts. */
const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const IMAGE_BYTES_MAX = 8 * 1024 * 1024;

export interface MediaFile {
  media_type: string;
  sha256?: string;
  bytes?: number;
}

/** Returns true if the file is shown inline. All other files are downloads. */
export function isInlineImage({ media_type, sha256, bytes }: MediaFile): boolean {
  return sha256 !== undefined && IMAGE_TYPES.includes(media_type) && (bytes ?? 0) <= IMAGE_BYTES_MAX;
}

/** Formats a size, such as `2.3 MB`. */
export function formatBytes(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Loads an image and returns an object URL. The caller must revoke it. */
export async function loadImage(thread: string, { sha256 = "", media_type }: MediaFile): Promise<string> {
  const bytes = await (await api.artifact(thread, sha256)).arrayBuffer();
  if (bytes.byteLength > IMAGE_BYTES_MAX) throw new Error("it is too large");
  return URL.createObjectURL(new Blob([bytes], { type: media_type }));
}

/** Downloads the file. */
export async function downloadMedia(thread: string, { sha256 = "", media_type }: MediaFile): Promise<void> {
  const bytes = await (await api.artifact(thread, sha256)).arrayBuffer();
  // A generic type, because a downloaded file must not be opened as a page.
  const file = new Blob([bytes], { type: "application/octet-stream" });
  const extension = /^[a-z]+\/([a-z0-9]{1,8})$/.exec(media_type)?.[1] ?? "bin";
  saveFile(file, `${sha256.slice(0, 12)}.${extension}`);
}
