// The project of a reader who copies an example.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { root, type Block } from './documents-blocks'

// TypeScript 7 has no API to transpile with.
const typescript = createRequire(import.meta.url)('@typescript/typescript6')
export const standIns = join(root, 'fixtures/documents')
export const isCode = ({ language }: Block) => language === 'ts' || language === 'js'

/** The code of a block as JavaScript that the oldest supported Node can run. */
export function javaScriptOf({ code, language }: Block): string {
  if (language === 'js') return code
  const compilerOptions = { target: typescript.ScriptTarget.ES2022, module: typescript.ModuleKind.ESNext }
  return typescript.transpileModule(code, { compilerOptions }).outputText
}

/** The project with a first commit. The agents of the examples then add a file. */
function asRepository(folder: string): void {
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder })
  writeFileSync(join(folder, '.gitignore'), 'node_modules\n')
  git('init', '-q')
  git('add', '.')
  git('-c', 'user.name=t', '-c', 'user.email=t@localhost', 'commit', '-q', '-m', 'first')
}

/** A project of a reader, who has installed this package, a schema library and two agents. */
export function project(blocks: Block[]): string {
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
  if (blocks.some(({ code }) => /\b(worktree|changes|race)\b/.test(code))) asRepository(folder)
  return folder
}
