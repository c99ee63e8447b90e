// The files that recipes show are what their readers take: workflows by the schema of workflows, a Dockerfile by Docker's grammar,
// units by systemd.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { NoOperationTraceWriter, parseWorkflow } from '@actions/workflow-parser'
import { validate } from 'dockerfile-utils'
import { expect, it } from 'vitest'
import { spawn } from '..'
import { blocksOf, published, type Block } from './documents-blocks'
import { isCode, javaScriptOf, project, standIns } from './documents-project'

const written = (language: string) =>
  published.flatMap(blocksOf).filter((block) => block.language === language)
const each = (blocks: Block[]) => blocks.map((block) => [block.place, block] as const)

const faultsOfWorkflow = (content: string) =>
  parseWorkflow({ name: 'workflow.yml', content }, new NoOperationTraceWriter())
    .context.errors.getErrors()
    .map(({ message }) => message)

it.each(each(written('yaml')))('%s is a workflow of GitHub Actions', (_, { code }) => {
  expect(faultsOfWorkflow(code)).toEqual([])
})

it('a wrong workflow is seen', () => {
  const workflow = written('yaml')[0]!.code
  expect(faultsOfWorkflow(workflow.replace('runs-on', 'run-on'))).not.toEqual([])
  expect(written('yaml').length).toBeGreaterThanOrEqual(3)
})

it.each(each(written('dockerfile')))('%s is a Dockerfile', (_, { code }) => {
  expect(validate(code)).toEqual([])
  expect(validate(code.replace('WORKDIR', 'WORKDIRECTORY'))).not.toEqual([])
})

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0

it.runIf(hasSystemd).each(each(written('ini')))('%s is a unit of systemd', (_, { code }) => {
  const faultsOf = (unit: string) => {
    const path = join(mkdtempSync(join(tmpdir(), 'sheepdog-unit-')), 'my-agents.service')
    writeFileSync(path, unit)
    const { stderr } = spawnSync('systemd-analyze', ['verify', path], { encoding: 'utf8' })
    // Its programs need not be here.
    return stderr
      .split('\n')
      .filter((line) => line.includes('my-agents') && !line.includes('is not executable'))
  }
  expect(faultsOf(code)).toEqual([])
  expect(faultsOf(code.replace('KillMode=mixed', 'KillMode=gently'))).not.toEqual([])
})

/** The mounts that systemd's ProtectSystem=strict makes, with and without a folder for temporary files. */
const mounts = (hasTemporary: boolean, stage: string) => `
  mount --make-rprivate / && mount -t tmpfs none /srv && mount -t tmpfs none /var/lib && mkdir /srv/agents /var/lib/agents || exit 99
  cp -r ${stage}/project/. /srv/agents || exit 99
  mount --bind / / && mount -o remount,bind,ro / || exit 99
  mount -t tmpfs ${hasTemporary ? '' : '-o ro'} none /tmp || exit 99
  cd /srv/agents && exec ${process.execPath} server.mjs`
const mayMount = spawnSync('unshare', ['-m', 'true']).status === 0

it.runIf(mayMount)('the unit of systemd.md lets an agent work under the mounts that it makes', () => {
  const page = 'docs/recipes/systemd.md'
  const [unit, program] = [
    blocksOf(page).find(({ language }) => language === 'ini')!,
    blocksOf(page).find(isCode)!,
  ]
  const stage = mkdtempSync(join(tmpdir(), 'sheepdog-unit-'))
  cpSync(project(blocksOf(page)), join(stage, 'project'), { recursive: true, verbatimSymlinks: true })
  writeFileSync(join(stage, 'project/server.mjs'), javaScriptOf(program))
  const start = (hasTemporary: boolean) =>
    spawnSync('unshare', ['-m', 'sh', '-c', mounts(hasTemporary, stage)], {
      encoding: 'utf8',
      env: { HOME: '/var/lib/agents', PATH: `${standIns}/bin:${process.env.PATH}` },
    })
  for (const setting of [
    'ProtectSystem=strict',
    'PrivateTmp=true',
    'ReadWritePaths=/srv/agents',
    'StateDirectory=agents',
  ])
    expect(unit.code.split('\n')).toContain(setting)
  expect(start(true)).toMatchObject({ status: 0, stderr: '', stdout: 'One test fails.\nOne test fails.\n' })
  // Without the folder no turn can start.
  expect(start(false)).toMatchObject({ status: 1, stderr: expect.stringContaining('PROCESS_SPAWN_FAILED') })
})

it('the program of systemd.md ends well when the minute of draining is over', async () => {
  const program = blocksOf('docs/recipes/systemd.md').find(isCode)!
  const folder = project([])
  // A fifth of a second in place of the minute.
  writeFileSync(join(folder, 'server.mjs'), javaScriptOf(program).replace('60_000', '200'))
  const server = spawn(process.execPath, ['server.mjs'], {
    cwd: folder,
    env: {
      PATH: `${standIns}/bin:${process.env.PATH}`,
      STAND_IN_STALLS: '1',
      SHEEPDOG_STATE_DIR: join(folder, 'state'),
    },
  })
  await server.started
  await setTimeout(1500)
  process.kill((await server.started).pid, 'SIGTERM')
  expect(await server.result).toMatchObject({
    exitCode: 0,
    stderr: '',
    stdout: 'stopped in the middle, to be done again\n',
  })
})
