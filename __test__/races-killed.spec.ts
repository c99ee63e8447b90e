// Races whose processes are killed at random moments. `npm run trial -- races` runs 200 of them.
import { expect, it } from 'vitest'
import { runRaces } from '../fixtures/races/run.mjs'

it.runIf(process.platform === 'linux')(
  'after races that were killed nothing is alive, nothing is left, and the working tree is as it was',
  async () => {
    const { problems, kills } = await runRaces({ count: 10, seed: 7, killsGit: false })
    expect(problems).toEqual([])
    expect(kills.host).toBeGreaterThan(0)
  },
  240_000,
)
