import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBehaviours, chooseUser, ends, runCell } from '../fixtures/survivors/matrix.mjs'

// The short form of `npm run trial -- survivors`: the behaviours that escape everything but a guard, once per end.
describe.runIf(process.platform === 'linux')('nobody survives', () => {
  let folder: string
  let program: string
  let user: { ids: object }

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'sheepdog-survivors-'))
    chmodSync(folder, 0o755)
    program = buildBehaviours(folder)
    user = chooseUser(program)
  }, 120_000)

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  for (const end of Object.keys(ends)) {
    it.each(['clean', 'hop', 'deep', 'killgrand'])(`%s when it ends by: ${end}`, async (behaviour) => {
      const cell = await runCell({ program, ids: user.ids, behaviour, end, repetitions: 1 })
      expect(cell.problems).toEqual([])
      // Who kills its own guard may be gone before anybody has looked.
      if (!behaviour.startsWith('kill')) expect(cell.lived).toBeGreaterThan(0)
      expect(cell.survivors).toBe(0)
    })
  }
})
