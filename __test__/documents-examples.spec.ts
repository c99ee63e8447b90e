// Every example of a task page, a recipe and the README does what it says: it is run as it stands, in a small project, beside CLIs
// that stand in for those of the agents. An example that can't be run here says why, in a comment right before it.
import { cpSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '..'
import { blocksOf, published, root, taskPages, type Block } from './documents-blocks'

// TypeScript 7 has no API to transpile with.
const typescript = createRequire(import.meta.url)('@typescript/typescript6')
const standIns = join(root, 'fixtures/documents')
const isCode = ({ language }: Block) => language === 'ts' || language === 'js'

/** The code of a block as JavaScript that the oldest supported Node can run. */
function javaScriptOf({ code, language }: Block): string {
  if (language === 'js') return code
  const compilerOptions = { target: typescript.ScriptTarget.ES2022, module: typescript.ModuleKind.ESNext }
  return typescript.transpileModule(code, { compilerOptions }).outputText
}

/** A project of a reader, who has installed this package, a schema library and two agents. */
function project(blocks: Block[]): string {
  const folder = join(mkdtempSync(join(tmpdir(), 'sheepdog-examples-')), 'project')
  cpSync(join(standIns, 'project'), folder, { recursive: true })
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(root, join(folder, 'node_modules/sheepdog'))
  symlinkSync(join(root, 'node_modules/zod'), join(folder, 'node_modules/zod'))
  for (const block of blocks) {
    if (!block.marks.file) continue
    const path = join(folder, block.marks.file)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, isCode(block) ? javaScriptOf(block) : block.code)
  }
  return folder
}

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

describe('the example', () => {
  it.concurrent.each(examples.map((example) => [example.block.place, example] as const))(
    '%s runs as it stands',
    async (place, { block, blocks, shown }) => {
      const folder = project(blocks)
      writeFileSync(join(folder, 'example.mjs'), javaScriptOf(block))
      const env = {
        PATH: `${join(standIns, 'bin')}:${process.env.PATH}`,
        HOME: dirname(folder),
        SHEEPDOG_STATE_DIR: join(dirname(folder), 'state'),
      }
      const options = { cwd: folder, env, idleTimeoutMs: 60_000 }
      const ended = await run(process.execPath, ['example.mjs'], options)
      if (block.marks.ends) expect(ended.stderr, place).toContain(block.marks.ends)
      else
        expect({ stderr: ended.stderr, exitCode: ended.exitCode }, place).toEqual({ stderr: '', exitCode: 0 })
      if (shown !== undefined)
        expect(isShown(shown, ended.stdout), `${place} printed:\n${ended.stdout}`).toBe(true)
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
