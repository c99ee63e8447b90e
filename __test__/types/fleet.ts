// Compiled by `npm run check`, never run: a job takes no option of a turn that `submit()` always refuses.
import { Budget, type TurnOptions } from '../../index.js'
import type { Fleet } from '../../entries/fleet.js'

export async function jobs(fleet: Fleet, turn: TurnOptions): Promise<void> {
  const job = { provider: 'codex', prompt: 'hi' } as const
  await fleet.submit({ ...job, model: 'x', git: { url: 'https://example.com/x.git' } })
  await fleet.submit({ ...turn, ...job })
  // @ts-expect-error: a job works in a checkout by `git`
  await fleet.submit({ ...job, worktree: true })
  // @ts-expect-error: the worker's machine has the changes
  await fleet.submit({ ...job, changes: true })
  // @ts-expect-error: a budget is an object of one process
  await fleet.submit({ ...job, budget: new Budget({ maxTokens: 1 }) })
}
