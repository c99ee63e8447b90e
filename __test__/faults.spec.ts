import { describe, expect, it } from 'vitest'
import { runSubject, straits } from '../fixtures/faults/straits.mjs'

/** The short form of `npm run trial -- faults`: always the same trials, so that what fails here fails again. */
const SEED = 1
const TRIALS = 20

describe.runIf(process.platform === 'linux')(
  'everything settles and nobody survives, whatever is killed,',
  () => {
    for (const [strait, { lacks }] of Object.entries(straits)) {
      const lacking = lacks?.()
      const title = lacking ? `${strait}: skipped, it takes ${lacking}` : strait
      it.skipIf(lacking !== undefined).concurrent(`with ${title}`, async () => {
        const { problems } = await runSubject({ strait, seed: SEED, trials: TRIALS, limitMs: 150_000 })
        expect(problems).toEqual([])
      })
    }
  },
)
