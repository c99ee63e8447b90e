// Part of `npm run trial -- coverage`: a worker of vitest is ended by SIGTERM, and killed half a second later. What it has counted is
// written before: of JavaScript after its last test, of the addon by a regular exit.
import { stopCoverage, takeCoverage } from 'node:v8'
import { afterAll } from 'vitest'

afterAll(() => {
  takeCoverage()
  // It would be written once more at the exit, which has no time for it.
  stopCoverage()
})
process.once('SIGTERM', () => process.exit())
