// Every example of a task page, a recipe and the README does what it says: it is run as it stands, in a small project, beside CLIs
// that stand in for those of the agents. An example that can't be run here says why, in a comment right before it.
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run, type RunResult } from '..'
import { blocksOf, published, taskPages, type Block } from './documents-blocks'
import { isCode, javaScriptOf, project, standIns } from './documents-project'

/** `text` blocks show what the code before them prints; a line of "..." stands for any lines. */
function isShown(shown: string, printed: string): boolean {
  const literal = (line: string) =>
    line === '...' ? '[^]*?' : `${line.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').trimEnd()} *\\n`
  const lines = `${shown.split('\n').map(literal).join('')}$`
  return new RegExp(`^${lines}`).test(printed.replace(/\r\n/g, '\n'))
}

const examples = taskPages.flatMap((page) => {
  const blocks = blocksOf(page)
  return blocks.flatMap((block, index) => {
    if (!isCode(block) || block.marks.file || block.marks['not run']) return []
    const next = blocks[index + 1]
    return { block, blocks, shown: next?.language === 'text' ? next.code : undefined }
  })
})

const isAgents = ({ code }: Block) =>
  /\bnew Harness\([^]*\.(run|start)\(/.test(code) && !/scriptedAgent|\bbinary:|\.open\(/.test(code)

/** Runs a block as a reader's program. */
function start(block: Block, blocks: Block[], env: Record<string, string> = {}, signal?: AbortSignal) {
  const folder = project(blocks)
  writeFileSync(join(folder, 'example.mjs'), javaScriptOf(block))
  return run(process.execPath, ['example.mjs'], {
    cwd: folder,
    env: {
      PATH: `${join(standIns, 'bin')}:${process.env.PATH}`,
      HOME: dirname(folder),
      SHEEPDOG_STATE_DIR: join(dirname(folder), 'state'),
      ...env,
    },
    idleTimeoutMs: 60_000,
    ...(signal && { signal }),
  })
}

describe('the example', () => {
  it.concurrent.each(examples.map((example) => [example.block.place, example] as const))(
    '%s runs as it stands',
    async (place, { block, blocks, shown }) => {
      const ended = await start(block, blocks)
      if (block.marks.ends) expect(ended.stderr, place).toContain(block.marks.ends)
      else
        expect({ stderr: ended.stderr, exitCode: ended.exitCode }, place).toEqual({ stderr: '', exitCode: 0 })
      if (shown !== undefined)
        expect(isShown(shown, ended.stdout), `${place} printed:\n${ended.stdout}`).toBe(true)
    },
  )

  // A failure must be seen: an exit status, a line on stderr, or the code of the error among what is printed.
  const isTold = ({ exitCode, stderr, stdout }: RunResult) =>
    exitCode !== 0 || stderr !== '' || /\b[A-Z]+_[A-Z_]+\b|[1-9]\d* failed/.test(stdout)
  const ofAgents = examples.filter(({ block }) => isAgents(block))
  it.concurrent.each(ofAgents.map((example) => [example.block.place, example] as const))(
    '%s does not pass over an agent that fails, or is not there',
    async (place, { block, blocks }) => {
      const failed = await start(block, blocks, { STAND_IN_FAILS: '1' })
      expect(isTold(failed), `${place} printed:\n${failed.stdout}`).toBe(true)
      const missing = await start(block, blocks, { PATH: `${dirname(process.execPath)}:/usr/bin:/bin` })
      expect(isTold(missing), `${place} printed:\n${missing.stdout}`).toBe(true)
    },
  )

  it('of every task is complete, or says what its text presupposes', () => {
    const incomplete = taskPages
      .flatMap(blocksOf)
      .filter((block) => isCode(block) && block.marks.given && !block.marks['not run'])
    expect(incomplete.map(({ place }) => place)).toEqual([])
    expect(examples.length).toBeGreaterThan(30)
  })

  it('comes first on the page of every task', () => {
    const late = published
      .filter((page) => /^docs\/(tasks|recipes)\//.test(page))
      .filter((page) => Number(blocksOf(page)[0]?.place.match(/:(\d+)$/)?.[1] ?? Infinity) > 12)
    expect(late).toEqual([])
  })

  it('is compared with what it prints', () => {
    expect(isShown('a\n...\nc', 'a\nb\nb\nc\n')).toBe(true)
    expect(isShown('a\nc', 'a\nb\nc\n')).toBe(false)
    expect(isShown('a (b)', 'a (b)\n')).toBe(true)
  })
})
