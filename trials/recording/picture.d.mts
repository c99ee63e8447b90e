import type { Span } from './screen.mjs'

export function renderPicture(
  frames: { atMs: number; rows: Span[][] }[],
  options: { columns: number; title: string },
): string
