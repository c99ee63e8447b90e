// The sandbox. A case that needs a newer Landlock than the kernel has (`landlock`) must be refused.
import { spawn as plain } from 'node:child_process'
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connects, equal, inside, mark, outside, refusal, sh, support } from './tools.mjs'

/** A case that needs this version of Landlock. */
const needs = (landlock, attempt) => Object.assign(attempt, { landlock })

export const sandboxCases = {
  'sandbox: writes inside': needs(1, async () => {
    const { stderr } = await sh('echo x > made && mkdir d && rm -r d made', { sandbox: { write: ['.'] } })
    equal(stderr, '')
  }),
  'sandbox: no writes outside': needs(1, async () => {
    const file = join(outside, 'made')
    const { exitCode } = await sh(`echo x > ${file}`, { sandbox: { write: ['.'] } })
    equal([exitCode === 0, existsSync(file)], [false, false])
    equal((await sh(`echo x > ${file}`)).exitCode, 0)
  }),
  'sandbox: no reads outside': needs(1, async () => {
    const file = join(outside, 'secret')
    writeFileSync(file, 'secret')
    const read = ['/usr', '/bin', '/lib', '/lib64', '/etc', '/proc', '/dev'].filter((path) =>
      existsSync(path),
    )
    const { stdout, exitCode } = await sh(`cat ${file}`, { sandbox: { write: ['.'], read } })
    equal([stdout, exitCode === 0], ['', false])
  }),
  'sandbox: no network': needs(1, () => reachesNothing({ network: 'none' })),
  'sandbox: a Unix socket outside': needs(1, async () => {
    const answer = await connects({ write: ['.'], network: 'none' }, join(outside, 'socket'))
    if (answer === 'connected') throw new Error(answer)
    return answer
  }),
  // No listed host can be reached here: what must be seen is that all else is refused.
  'sandbox: hosts': needs(1, () => reachesNothing({ network: { hosts: ['nowhere.invalid'] } })),
  'sandbox: renames between folders': needs(1, async () => {
    writeFileSync(join(inside, 'a/file'), 'x')
    const { exitCode } = await sh(`${process.execPath} -e "require('fs').renameSync('a/file', 'b/file')"`, {
      sandbox: { write: ['a', 'b'] },
    })
    rmSync(join(inside, 'a/file'), { force: true })
    // Landlock 2 allows them. Before, each is refused.
    equal(exitCode === 0, support.landlock >= 2)
    return exitCode === 0 ? 'allowed' : 'refused'
  }),
  'sandbox: ports': needs(4, () => reachesNothing({ network: { ports: [1] } })),
  'sandbox: no signals outside': needs(1, async () => {
    const victim = plain('sleep', ['60'])
    const trial = sh(`kill ${victim.pid}`, { sandbox: {} })
    const { exitCode } = await trial.finally(() => victim.kill('SIGKILL'))
    // Landlock 6 refuses them. Before, `holds` does not promise it.
    equal([exitCode !== 0, support.holds.includes('signals')], [support.landlock >= 6, support.landlock >= 6])
    return exitCode === 0 ? 'allowed' : 'refused'
  }),
  'sandbox: an abstract socket outside': needs(1, async () => {
    const answer = await connects({ network: 'all' }, `\0${mark()}`)
    equal(answer !== 'connected', support.landlock >= 6)
    return answer
  }),
  async 'sandbox: more is required than there is'() {
    const landlock = support.landlock + 1
    equal((await refusal(sh('true', { sandbox: { require: { landlock } } }))).code, 'SANDBOX_UNAVAILABLE')
  },
}

async function reachesNothing(sandbox) {
  const answer = await connects(sandbox)
  equal([answer, await connects()], ['EACCES', 'connected'])
  return answer
}
