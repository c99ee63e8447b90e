// The changes of an agent in a repository, and the checkouts of this user's agents.
import { callSite } from '../call-site'
import { settle } from '../error'
import { absolutePath } from '../host'
import { toJson } from '../json'
import { native } from '../native'
import { check, checkOptions, optionsOf } from '../option'

/** A file that differs between the base and what an agent left. */
export interface ChangedFile {
  /** Path below the top of the repository. */
  path: string
  /** Kind of the change. */
  status: 'added' | 'modified' | 'deleted' | 'renamed'
  /** The path before, of a renamed file. */
  from?: string
  /** Number of lines that were added. */
  insertions: number
  /** Number of lines that were removed. */
  deletions: number
  /** True for a file that is no text. */
  binary?: boolean
}

interface ChangesFacts {
  ref?: string
  base: string
  commit: string
  files: ChangedFile[]
}

const applyChecks = optionsOf('changes.apply()', { cwd: check.name })

/**
 * The changes of an agent in a git repository. The commits are objects of your repository, at the ref `refs/sheepdog/<id>`, until
 * `discard()`.
 *
 * @example
 * const { changes } = await codex.run('Fix the failing test.', { worktree: true })
 * for (const { path, status } of changes!.files) console.log(status, path)
 * await changes!.apply()
 */
export class Changes {
  /** The commit that the agent began with: HEAD, or a commit on it with the uncommitted files. */
  readonly base: string
  /** The commit that holds what the agent left. Without changes it is `base`. */
  readonly commit: string
  /** The ref that keeps the commit; absent without changes, and after `discard()`. */
  readonly ref?: string
  /** The files that differ between the two commits. */
  readonly files: readonly ChangedFile[]
  /** The folder of the checkout, where it was kept. */
  readonly worktree?: string
  /** Notes about files and commits that could not be taken. */
  readonly warnings: readonly string[]
  readonly #facts: string

  /** @internal */
  constructor(facts: ChangesFacts, warnings: readonly string[], worktree?: string) {
    this.base = facts.base
    this.commit = facts.commit
    if (facts.ref !== undefined) this.ref = facts.ref
    this.files = facts.files
    this.warnings = warnings
    if (worktree !== undefined) this.worktree = worktree
    this.#facts = toJson('changes', facts)
  }

  /**
   * The changes as a patch that `git apply` takes, binary files included.
   *
   * @throws WORKTREE_FAILED after `discard()`, once git has removed the objects.
   */
  async patch(): Promise<string> {
    return settle<string>(native.changesPatch(this.#facts), callSite())
  }

  /**
   * Merges the changes into the working tree, which may have changed since: by three ways, all or nothing. Index, stash and refs
   * stay as they are.
   *
   * @param options.cwd A folder in the working tree. Default: that of the turn.
   * @throws CHANGES_CONFLICT with the `files` that disagree; nothing was changed. WORKTREE_FAILED when git cannot do it.
   */
  async apply(options?: { cwd?: string }): Promise<void> {
    checkOptions(options, applyChecks)
    const cwd = options?.cwd === undefined ? undefined : absolutePath(options.cwd)
    await settle(native.changesApply(this.#facts, cwd), callSite())
  }

  /**
   * Removes the ref, and the checkout if it was kept. What was applied stays.
   *
   * @throws WORKTREE_FAILED when git cannot remove the ref.
   */
  async discard(): Promise<void> {
    await settle(native.changesDiscard(this.#facts), callSite())
    delete (this as { ref?: string }).ref
  }
}

/** A checkout of an agent, seen from outside. */
export interface AgentWorktree {
  /** Id of the checkout. */
  id: string
  /** `"running"`: its host works in it. `"kept"`: it was kept on purpose. `"left"`: its host is gone. */
  state: 'running' | 'kept' | 'left'
  /** Name of the turn, where it has one. */
  name?: string
  /** Top of the working tree that it was made from. */
  repository: string
  /** Folder of the checkout. */
  path: string
  /** The ref of the repository that belongs to it. */
  ref: string
  /** Process id of its host. */
  hostPid: number
  /** When it was made, in milliseconds since 1970. */
  madeAtMs: number
}

/** Lists the checkouts of this user's agents, the oldest first. The command `sheepdog ps` prints them. */
export async function listWorktrees(): Promise<AgentWorktree[]> {
  return JSON.parse(await settle<string>(native.listWorktrees(), callSite())) as AgentWorktree[]
}

/**
 * Removes checkouts whose host is gone, with their refs: all but the kept ones, or those with these ids. The command `sheepdog reap`
 * does the same.
 *
 * @returns The checkouts, each with the `problem` if it could not be removed.
 */
export async function reapWorktrees(
  ids?: readonly string[],
): Promise<{ worktree: AgentWorktree; problem?: string }[]> {
  if (ids !== undefined) check.strings('ids', ids)
  return JSON.parse(await settle<string>(native.reapWorktrees(ids && [...ids]), callSite()))
}
