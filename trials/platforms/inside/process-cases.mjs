// Running programs. Each case resolves with what is worth saying, and throws where a promise is broken.
import { portableCases } from './portable-cases.mjs'
import { equal, sh } from './tools.mjs'

export const processCases = {
  async terminal() {
    const { stdout } = await sh('test -t 0 && test -t 1 && echo terminal', { pty: true })
    equal(stdout, 'terminal\r\n')
  },
  ...portableCases,
}
