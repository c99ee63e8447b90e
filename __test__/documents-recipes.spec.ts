// The files that recipes show are what their readers take: workflows by the schema of workflows, a Dockerfile by Docker's grammar,
// units by systemd.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NoOperationTraceWriter, parseWorkflow } from '@actions/workflow-parser'
import { validate } from 'dockerfile-utils'
import { expect, it } from 'vitest'
import { blocksOf, published, type Block } from './documents-blocks'

const written = (language: string) => published.flatMap(blocksOf).filter((block) => block.language === language)
const each = (blocks: Block[]) => blocks.map((block) => [block.place, block] as const)

const faultsOfWorkflow = (content: string) =>
  parseWorkflow({ name: 'workflow.yml', content }, new NoOperationTraceWriter()).context.errors
    .getErrors()
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
