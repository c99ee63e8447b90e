import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { lengths } from '../scripts/sentences.mjs'
import { pictures } from '../scripts/pictures.mjs'
import { contents, slug } from '../site/contents.mjs'
import { blocksOf, internal, published, root, taskPages, type Block } from './documents-blocks'

const program = join(root, 'cli/sheepdog.js')

const pages = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', ...published, ...internal]
const blocks = pages.flatMap(blocksOf)
const written = (...languages: string[]) => blocks.filter(({ language }) => languages.includes(language))

describe('the pages', () => {
  it('link to files that there are', () => {
    const broken = pages.flatMap((page) => {
      const text = readFileSync(join(root, page), 'utf8').replace(/```[\s\S]*?```/g, '')
      return [...text.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)]
        .map(([, target = '']) => target)
        .filter((target) => !/^https?:/.test(target) && !existsSync(join(root, dirname(page), target)))
        .map((target) => `${page}: ${target}`)
    })
    expect(broken).toEqual([])
  })

  it('and all comments name files that there are', () => {
    const folders = [
      'src',
      'crates',
      'lib',
      'cli',
      'scripts',
      'trials',
      'tests',
      '__test__',
      'bench',
      'fixtures',
      'examples',
      'docs',
    ]
    const below = (folder: string) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map(
        (path) => `${folder}/${path}`,
      )
    const files = [...readdirSync(root), ...folders.flatMap(below)].filter(
      (path) => !path.includes('node_modules'),
    )
    const isThere = (name: string) => files.some((path) => path === name || path.endsWith(`/${name}`))
    const named = (text: string) =>
      [...text.matchAll(/^\s*(?:\/\/|\*|\/\*).*$/gm)].flatMap(([comment]) =>
        [...comment.matchAll(/(?<![\w./@*-])\w[\w./-]*\.(?:rs|ts|mjs|md|toml)\b/g)].map(([name]) => name),
      )
    expect(named('// as `x/y.rs` and lib/a.ts have it\n * z.md\nlet code = "c.ts"')).toEqual([
      'x/y.rs',
      'lib/a.ts',
      'z.md',
    ])
    const sources = files.filter((path) => /\.(rs|ts|mjs)$/.test(path) && !/generated|\.d\.ts$/.test(path))
    expect(sources.length).toBeGreaterThan(500)
    const missing = sources.flatMap((path) =>
      named(readFileSync(join(root, path), 'utf8'))
        // NAME stands for a name.
        .filter((name) => !isThere(name) && !/\bNAME\b/.test(name))
        .map((name) => `${path}: ${name}`),
    )
    expect(missing).toEqual([])
  })

  it('link to headings that there are', () => {
    const headings = (text: string) =>
      [...text.replace(/```[\s\S]*?```/g, '').matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => slug(title))
    const broken = [...pages, 'CHANGELOG.md'].flatMap((page) => {
      const text = readFileSync(join(root, page), 'utf8').replace(/```[\s\S]*?```/g, '')
      return [...text.matchAll(/\]\(([\w./-]*\.md)?#([^)]+)\)/g)]
        .filter(([, target, anchor = '']) => {
          const linked = target === undefined ? text : readFileSync(join(root, dirname(page), target), 'utf8')
          return !headings(linked).includes(anchor)
        })
        .map(([link]) => `${page}: ${link}`)
    })
    expect(broken).toEqual([])
  })

  it.each(['README.md', 'CHANGELOG.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', ...published])(
    '%s has short sentences',
    (page) => {
      const { mean, longShare } = lengths(readFileSync(join(root, page), 'utf8'))
      expect(mean, 'words in a sentence, on average').toBeLessThanOrEqual(14)
      expect(longShare, 'share of sentences above 25 words').toBeLessThanOrEqual(0.01)
    },
  )

  it.each(published)('%s has an example in its first 40 lines', (page) => {
    const head = readFileSync(join(root, page), 'utf8').split('\n').slice(0, 40)
    expect(head.some((line) => line.startsWith('```'))).toBe(true)
  })

  it('show pictures that are current (`node scripts/pictures.mjs` makes them anew)', () => {
    const all = Object.entries(pictures())
    expect(all.length).toBeGreaterThanOrEqual(5)
    const texts = published.map((page) => readFileSync(join(root, page), 'utf8')).join('\n')
    for (const [file, text] of all) {
      expect(readFileSync(file, 'utf8'), file).toBe(text)
      expect(texts).toContain(`(pictures/${basename(file)})`)
    }
  })

  it('list every error code once', () => {
    const table = JSON.parse(readFileSync(join(root, 'crates/ground/src/error/table.json'), 'utf8')) as {
      sections: { codes: { code: string }[] }[]
    }
    const codes = table.sections.flatMap((section) => section.codes.map(({ code }) => code))
    expect(codes.length).toBeGreaterThan(50)
    const page = readFileSync(join(root, 'docs/errors.md'), 'utf8')
    const listed = [...page.matchAll(/^- `([A-Z_]+)`/gm)].map(([, code]) => code)
    expect(codes.filter((code) => !listed.includes(code))).toEqual([])
    expect(listed.filter((code, index) => listed.indexOf(code) !== index)).toEqual([])
  })

  it('of the docs are listed in their contents, which the README names', () => {
    expect(readFileSync(join(root, 'README.md'), 'utf8')).toContain('(docs/index.md)')
    const listed = contents().flatMap(({ items }) => items.map(({ link }) => `docs/${link}`))
    expect(listed.sort()).toEqual(published.filter((page) => page !== 'docs/index.md'))
  })

  it('have headings with the ids that the site gives them', () => {
    expect(['It says `PROCESS_IDLE`', 'Programs: `run`, `spawn`', "An agent's work"].map(slug)).toEqual([
      'it-says-process_idle',
      'programs-run-spawn',
      'an-agents-work',
    ])
  })

  it('lead from what a reader sees to every error code', () => {
    const codesOf = (page: string) =>
      readFileSync(join(root, page), 'utf8').match(/(?<=`)[A-Z]+_[A-Z_]+(?=`)/g)
    const listed = new Set(codesOf('docs/troubleshooting.md'))
    const codes = [...readFileSync(join(root, 'docs/errors.md'), 'utf8').matchAll(/^- `([A-Z_]+)`/gm)]
    expect(codes.map(([, code]) => code!).filter((code) => !listed.has(code))).toEqual([])
  })

  it('of the package name nothing that only the repository has', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: object }
    const named = ['README.md', ...published].flatMap((page) => {
      const text = readFileSync(join(root, page), 'utf8').replace(/<!--[\s\S]*?-->/g, '')
      const repositoryOnly =
        /(?<![\w./-])(?:__test__|tests|fixtures|scripts|src|fuzz|bench|guard|lib|internals)\/[\w./-]+|\bcargo (?:test|run|build)\b/g
      const commands = [...text.matchAll(/\bnpm run ([\w:-]+)/g)].filter(([, name = '']) => name in scripts)
      return [...text.matchAll(repositoryOnly), ...commands].map(([name]) => `${page}: ${name}`)
    })
    // How to try it from a clone.
    expect(named.filter((name) => name !== 'README.md: npm run demo')).toEqual([])
  })

  it('of the package leave out those for people who work on it', () => {
    const packed = execFileSync('npm', ['pack', '--dry-run', '--json', '--silent', '--ignore-scripts'], {
      cwd: root,
      encoding: 'utf8',
    })
    const [{ files }] = JSON.parse(packed) as [{ files: { path: string }[] }]
    const paths = files.map(({ path }) => path)
    expect(paths).toEqual(expect.arrayContaining(['README.md', ...published]))
    expect(paths.filter((path) => path.startsWith('docs/internals'))).toEqual([])
  })
})

describe('the code of README and docs', () => {
  it('is of known kinds, each of which is looked at here', () => {
    const known = ['ts', 'js', 'sh', 'json', 'yaml', 'dockerfile', 'ini', 'toml', 'text', '']
    expect(blocks.filter(({ language }) => !known.includes(language))).toEqual([])
    expect(written('ts', 'js').length).toBeGreaterThan(8)
  })

  // A reader's JavaScript needs no types. Its names and options have to be right all the same.
  const isLoose = ({ page, language, marks }: Block) =>
    language === 'js' && !marks.given && taskPages.includes(page)
  it.each([
    ['strictly', '.mts', { strict: true }, written('ts', 'js').filter((block) => !isLoose(block))],
    ['as JavaScript', '.mjs', { strict: false, allowJs: true, checkJs: true }, blocks.filter(isLoose)],
  ])('compiles as it stands, %s', (_, extension, strictness, wanted) => {
    expect(wanted.length).toBeGreaterThan(30)
    const folder = mkdtempSync(join(tmpdir(), 'sheepdog-documents-'))
    const places = new Map<string, Block>()
    wanted.forEach((block, index) => {
      const file = `block-${index}${extension}`
      places.set(file, block)
      writeFileSync(join(folder, file), `${block.marks.given ?? ''}\n${block.code}\nexport {}\n`)
    })
    const compilerOptions = {
      noEmit: true,
      ...strictness,
      target: 'es2023',
      lib: ['es2023', 'esnext.disposable'],
      module: 'nodenext',
      skipLibCheck: true,
      types: ['node'],
      typeRoots: [join(root, 'node_modules/@types')],
      paths: { sheepdog: [join(root, 'index.d.ts')], 'sheepdog/*': [join(root, 'entries/*.d.ts')] },
    }
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, include: [`*${extension}`] }),
    )
    const compiler = join(root, 'node_modules/typescript/bin/tsc')
    const { stdout, status } = spawnSync(process.execPath, [compiler, '-p', folder, '--pretty', 'false'], {
      cwd: folder,
      encoding: 'utf8',
    })
    // The line of the page, not of the file that was made of it.
    const told = stdout.replace(/^(block-\d+\.m[tj]s)\((\d+),\d+\)/gm, (_, file, line) => {
      const [page, first] = places.get(file)!.place.split(':')
      return `${page}:${Number(first) + Number(line) - 2}`
    })
    expect(`${told}${status}`).toBe('0')
  })

  it('is, where it is JavaScript, taken by the oldest Node that is supported', () => {
    const found = written('js')
    // One start of Node parses all of them. `--check` takes a start for each.
    const check = `import { SourceTextModule } from 'node:vm'
      const codes = JSON.parse(await process.stdin.toArray().then((chunks) => Buffer.concat(chunks)))
      const problem = (code) => { try { new SourceTextModule(code); return '' } catch (error) { return error.stack } }
      console.log(JSON.stringify(codes.map(problem)))`
    const args = ['--no-warnings', '--experimental-vm-modules', '--input-type=module', '-e', check]
    const input = JSON.stringify(found.map(({ code }) => code))
    const problems = JSON.parse(execFileSync(process.execPath, args, { input, encoding: 'utf8' })) as string[]
    found.forEach(({ place, code }, index) => {
      expect(code, place).not.toMatch(/\b(await )?using \w+ =/)
      expect(problems[index], place).toBe('')
    })
  })

  it('is, where it is JSON, JSON', () => {
    for (const { place, code } of written('json')) expect(() => JSON.parse(code), place).not.toThrow()
  })

  it('names commands and options that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    const texts = new Map<string, string>()
    const help = (...words: string[]) => {
      const key = words.join(' ')
      if (!texts.has(key))
        texts.set(key, execFileSync(process.execPath, [program, ...words], { encoding: 'utf8' }))
      return texts.get(key)!
    }
    const commands = [...help('--help').matchAll(/^ {2}(\w+) /gm)].map(([, name]) => name)
    expect(commands.length).toBeGreaterThan(5)
    for (const { place, code, language } of written('sh', '')) {
      // A synopsis, with its [OPTIONAL] parts, is no shell.
      const isShell = language === 'sh' && !/\[-|A-Z]|\[\w/.test(code)
      if (isShell) expect(spawnSync('sh', ['-n'], { input: code }).stderr.toString(), place).toBe('')
      for (const [, name] of code.matchAll(/npm run ([\w:]+)/g))
        expect(Object.keys(scripts), place).toContain(name)
      for (const [, command = '', rest = ''] of code.matchAll(/^sheepdog (\w+)(.*)$/gm)) {
        expect(commands, place).toContain(command)
        const [own = ''] = rest.split(' -- ')
        for (const [option] of own.matchAll(/--\w[\w-]*/g))
          expect(help('help', command), place).toContain(option)
      }
    }
  })
})
