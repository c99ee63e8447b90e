import { callSite } from '../call-site'
import { settle } from '../error'
import { absolutePath } from '../host'
import { native } from '../native'
import { check } from '../option'
import type { Replay } from './replay'

/** A record that was read from its folder. */
export interface RecordReplay {
  /** Content of `run.json`. */
  start: Record<string, unknown> & {
    /** Kind of the record: a program, a turn, one attempt of a turn, or a session. */
    kind: 'run' | 'turn' | 'attempt' | 'session'
  }
  /** Content of `end.json`; null when there is none. */
  end: Record<string, unknown> | null
  /**
   * Reason why there is no `end.json`. `"running"`: the run goes on. `"host-gone"`: its host process
   * was killed. `"elsewhere"`: its host belongs to another machine, boot or container.
   */
  unfinished: 'running' | 'host-gone' | 'elsewhere' | null
  /**
   * Events and verdict of a turn, computed again from the agent's output; null for a session and for a
   * run of another program.
   */
  turn: Replay | null
}

/** @internal Why a record without an end has none, by its `run.json`. */
export function unfinishedOf(start: { host?: { id?: string } }): NonNullable<RecordReplay['unfinished']> {
  return native.recordUnfinished(start.host?.id ?? '') as NonNullable<RecordReplay['unfinished']>
}

/**
 * Reads the folder of a record.
 *
 * @throws INVALID_OPTION when the folder holds no record.
 */
export async function replayRecord(folder: string): Promise<RecordReplay> {
  check.name('folder', folder)
  return JSON.parse(
    await settle<string>(native.replayFolder(absolutePath(folder)), callSite()),
  ) as RecordReplay
}
