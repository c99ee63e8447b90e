import { resolve } from 'node:path'
import { callSite } from '../call-site'
import { settle } from '../error'
import { native } from '../native'
import { check } from '../option'
import type { Replay } from './replay'

/** A record, read again. */
export interface RecordReplay {
  /** `run.json` as it is. */
  start: Record<string, unknown> & { kind: 'run' | 'turn' | 'attempt' | 'session' }
  /** `end.json` as it is; null when there is none. */
  end: Record<string, unknown> | null
  /**
   * Why there is no end: "running"; "host-gone": its host was killed; "elsewhere": its host was of another machine, boot or container.
   */
  unfinished: 'running' | 'host-gone' | 'elsewhere' | null
  /** Events and verdict of a turn, read again from what the agent printed; null for a session and for a run of another program. */
  turn: Replay | null
}

/** @internal Why a record without an end has none, by its `run.json`. */
export function unfinishedOf(start: { host?: { id?: string } }): NonNullable<RecordReplay['unfinished']> {
  return native.recordUnfinished(start.host?.id ?? '') as NonNullable<RecordReplay['unfinished']>
}

/** Reads the folder of a run that was kept on record. INVALID_OPTION for what is no record. */
export async function replayRecord(folder: string): Promise<RecordReplay> {
  check.name('folder', folder)
  return JSON.parse(await settle<string>(native.replayFolder(resolve(folder)), callSite())) as RecordReplay
}
