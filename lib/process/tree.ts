import { callSite } from '../call-site'
import { settle } from '../error'
import { native } from '../native'
import { check } from '../option'

/** Process tree of a run, seen from outside. It may belong to any host process of this user. */
export interface RunTree {
  /** Id of the tree, for `stopTree` and `reapTrees`. */
  id: string
  /** Name of the run, or the head of its prompt; null when it has none. */
  name: string | null
  /**
   * `"running"`: its host process supervises it. `"kept"`: its run is over and left it running on
   * purpose (`strays: "keep"`). `"left"`: its host process is gone. `"elsewhere"`: its host belongs to
   * another container or boot, so its state is unknown.
   */
  state: 'running' | 'kept' | 'left' | 'elsewhere'
  /** Process id of the host process that started it. */
  hostPid: number
  /** Command line of the host process; null when that process is gone. */
  hostCommand: string | null
  /** Command line of the program. */
  command: string
  /** Process id of the program; null when it has exited. */
  pid: number | null
  /** Start time, in milliseconds since 1970; null when it is unknown. */
  startedAtMs: number | null
  /** Milliseconds since the start. */
  durationMs: number
  /** Milliseconds since the last output, exact to a second; null when it is unknown. */
  silentMs: number | null
  /** Resident memory of all processes of the tree, in bytes. */
  rssBytes: number
  /** The processes of the tree. */
  processes: {
    /** Process id. */
    pid: number
    /** Process id of the parent. */
    parent: number
    /** Command line. */
    command: string
    /** Resident memory, in bytes. */
    rssBytes: number
    /** Processor time, in milliseconds. */
    cpuMs: number
  }[]
  /** Folder of its record; null without one. */
  record: string | null
}

/** A tree that was ended. */
export interface ReapedTree {
  /** The tree as it was before. */
  tree: RunTree
  /** Number of processes that were killed. */
  killed: number
  /** Number of processes that are still alive because they run as another user. */
  left: number
}

/**
 * Lists every process tree of this user that this package started, the oldest first. The command
 * `sheepdog ps` prints it. Linux only: elsewhere the list is empty.
 */
export async function listTrees(): Promise<RunTree[]> {
  return JSON.parse(await settle<string>(native.listTrees(), callSite())) as RunTree[]
}

/**
 * Ends the trees whose host process is gone: all of them, or those with these ids. The command
 * `sheepdog reap` does the same.
 *
 * @returns The trees that were ended.
 */
export async function reapTrees(ids?: readonly string[]): Promise<ReapedTree[]> {
  if (ids !== undefined) check.strings('ids', ids)
  return JSON.parse(await settle<string>(native.reapTrees(ids && [...ids]), callSite())) as ReapedTree[]
}

/**
 * Ends one tree, whether or not its host process is alive: SIGTERM, and SIGKILL after 2 seconds. The
 * host process then reports that the program was ended by a signal.
 *
 * @throws INVALID_OPTION when there is no tree with this id.
 */
export async function stopTree(id: string): Promise<ReapedTree> {
  check.name('id', id)
  return JSON.parse(await settle<string>(native.stopTree(id), callSite())) as ReapedTree
}
