// The reference pages of the API, one for each entry, as its types say it: `api/NAME.md`, for the site alone.
import { readFileSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

/** The entries of the package, by the names that a program imports. */
export const entries = [
  ['sheepdog', 'index.d.ts'],
  ...readdirSync(join(root, 'entries'))
    .filter((name) => name.endsWith('.d.ts'))
    .map((name) => [`sheepdog/${name.replace('.d.ts', '')}`, `entries/${name}`]),
].map(([title, file]) => ({ title, file, page: `api/${title.replace('sheepdog/', '')}` }))

/** Text that a page of Markdown shows as it stands: code stays code, and nothing else is a tag. */
const plain = (text) =>
  text
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith('`') ? part : part.replaceAll('<', '&lt;').replaceAll('{{', '&#123;{')))
    .join('')
const code = (text) => `\`${text.replace(/\s+/g, ' ').replaceAll('`', "'")}\``

/** The page of an entry. */
export function apiPage({ title, file }) {
  // TypeScript 7 has no API to read with.
  const ts = createRequire(import.meta.url)('@typescript/typescript6')
  const source = ts.createSourceFile(
    file,
    readFileSync(join(root, file), 'utf8'),
    ts.ScriptTarget.Latest,
    true,
  )
  const textOf = (comment) => ts.getTextOfJSDocComment(comment) ?? ''
  const wordsOf = (node) => {
    const [doc] = node.jsDoc?.slice(-1) ?? []
    const tags = (doc?.tags ?? []).map((tag) => [tag.tagName.text, textOf(tag.comment)])
    const labels = { default: 'Default', throws: 'Rejects with', returns: 'Returns' }
    const told = tags.filter(([name]) => labels[name]).map(([name, text]) => `${labels[name]}: ${text}`)
    const parts = [doc ? textOf(doc.comment) : '', ...told].filter(Boolean)
    return parts.map((part) => plain(part.replace(/\s+/g, ' ').replace(/[^.:]$/, '$&.'))).join(' ')
  }
  const isOpen = (member) =>
    member.name && !ts.isPrivateIdentifier(member.name) && !member.name.getText().startsWith('_')
  const item = (member) => {
    const mark = member.questionToken ? '?' : ''
    const type = member.type ? member.type.getText().replace(/ \| undefined$/, '') : ''
    const parameters = member.parameters?.map((parameter) => parameter.getText()).join(', ')
    const signature = `${member.name.getText()}${mark}${parameters === undefined ? '' : `(${parameters})`}`
    return `- ${code(`${signature}${type && type.length < 80 ? `: ${type}` : ''}`)} ${wordsOf(member)}`
  }
  const parts = source.statements
    .filter((node) => node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) && node.name)
    .map((node) => {
      const members = (node.members ?? []).filter(isOpen).map(item)
      const signature = ts.isFunctionDeclaration(node) || ts.isTypeAliasDeclaration(node)
      const shown = signature && node.getText().length < 600 ? `\`\`\`ts\n${node.getText()}\n\`\`\`` : ''
      return [`## ${node.name.text}`, wordsOf(node), shown, members.join('\n')].filter(Boolean).join('\n\n')
    })
  return `# ${title}: the types\n\nWhat the declarations of this entry say, as your editor shows it.\n\n${parts.join('\n\n')}\n`
}
