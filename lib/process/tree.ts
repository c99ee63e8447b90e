import { callSite } from '../call-site'
import { settle } from '../error'
import { native } from '../native'
import { check } from '../option'

/** The processes of a run, seen from outside: of any host of this user. */
export interface RunTree {
  id: string
  /** As it was named, or the head of its prompt. */
  name: string | null
  /**
   * "running": its host watches it; "kept": its run is over and left it behind on purpose (`strays: "keep"`); "left": its host is gone;
   * "elsewhere": its host is of another container or boot, and nothing is known of it.
   */
  state: 'running' | 'kept' | 'left' | 'elsewhere'
  hostPid: number
  /** The host's command line, while it is alive. */
  hostCommand: string | null
  command: string
  /** The command's own, while it is alive. */
  pid: number | null
  /** Milliseconds since 1970; null when nobody wrote it down. */
  startedAtMs: number | null
  durationMs: number
  /** Since the last output, to a second; null when nobody wrote it down. */
  silentMs: number | null
  /** Memory of all its processes. */
  rssBytes: number
  processes: { pid: number; parent: number; command: string; rssBytes: number; cpuMs: number }[]
  /** The folder of its record. */
  record: string | null
}

/** A tree that was ended. */
export interface ReapedTree {
  tree: RunTree
  killed: number
  /** Alive in spite of it: they run as another user. */
  left: number
}

/** Every tree of this user that was started by this package, the oldest first: `sheepdog ps`. Linux only; elsewhere none is found. */
export async function listTrees(): Promise<RunTree[]> {
  return JSON.parse(await settle<string>(native.listTrees(), callSite())) as RunTree[]
}

/** Ends the trees whose host is gone, all or those with these ids; says what it ended: `sheepdog reap`. */
export async function reapTrees(ids?: string[]): Promise<ReapedTree[]> {
  if (ids !== undefined) check.strings('ids', ids)
  return JSON.parse(await settle<string>(native.reapTrees(ids), callSite())) as ReapedTree[]
}

/** Ends one tree whatever its host: SIGTERM, and SIGKILL after two seconds. Its host tells that the program was ended by a signal. */
export async function stopTree(id: string): Promise<ReapedTree> {
  check.name('id', id)
  return JSON.parse(await settle<string>(native.stopTree(id), callSite())) as ReapedTree
}
