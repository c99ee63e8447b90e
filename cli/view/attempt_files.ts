// The attempts of a recorded turn: each is a process with a record of its own (docs/record.md).
import { join } from 'node:path'
import { readRecord, type RecordFiles } from '../../lib/harness/record_file'
import type { Try } from './source'

/** More of one turn are not read. */
const mostAttempts = 200
/** Turns whose attempts are known at once. */
const mostTurns = 16

export class AttemptFiles {
  readonly #known = new Map<string, Try[]>()

  /** The attempts so far, the oldest first. Those that have ended are read once. */
  async of(folder: string, startedAtMs: number): Promise<Try[]> {
    const known = this.#known.get(folder) ?? []
    this.#known.delete(folder)
    const tries = known.filter(({ toMs }) => toMs !== null)
    for (let attempt = tries.length + 1; attempt <= mostAttempts; attempt++) {
      const read = await readTry(join(folder, 'attempts', `${attempt}`), attempt, startedAtMs)
      if (!read) break
      tries.push(read)
    }
    this.#known.set(folder, tries)
    for (const old of this.#known.keys()) {
      if (this.#known.size <= mostTurns) break
      this.#known.delete(old)
    }
    return tries
  }
}

async function readTry(folder: string, attempt: number, startedAtMs: number): Promise<Try | undefined> {
  const { start, end } = (await readRecord(folder)) ?? {}
  if (start?.startedAtMs === undefined) return undefined
  const since = (at: number) => Math.max(0, at - startedAtMs)
  return {
    attempt,
    worker: null,
    fromMs: since(start.startedAtMs),
    toMs: end?.endedAtMs === undefined ? null : since(end.endedAtMs),
    error: end?.error ? `${end.error.code}: ${end.error.message}` : exitOf(end),
    tokens: null,
    costUsd: null,
  }
}

function exitOf(end: RecordFiles['end']): string | null {
  return end?.signal ?? (end?.exitCode ? `exit ${end.exitCode}` : null)
}
