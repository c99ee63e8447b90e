// Optional properties of what users write take `undefined` as well: `{ resume: undefined }` counts as absent at run time, and so it
// has to compile under `exactOptionalPropertyTypes`.
import ts from '@typescript/typescript6'

/** The declarations by their file's name, where each optional property of a parameter's type says `| undefined`. */
export function takingUndefined(texts) {
  const files = Object.entries(texts).map(([name, code]) =>
    ts.createSourceFile(name, code, ts.ScriptTarget.Latest, true),
  )
  const types = new Map(files.map((file) => [file, typesOf(file)]))
  /** A name that a file does not declare comes from the root. */
  const declared = (file, name) => types.get(file).get(name) ?? types.get(files[0]).get(name)
  const seen = new Set()
  const edits = new Map(files.map((file) => [file, []]))
  const written = (node) => {
    if (seen.has(node)) return
    seen.add(node)
    const file = node.getSourceFile()
    if (ts.isTypeReferenceNode(node) || ts.isExpressionWithTypeArguments(node)) {
      const name = (node.typeName ?? node.expression).getText()
      declared(file, name)?.forEach(written)
    }
    if (ts.isPropertySignature(node) && node.questionToken && node.type)
      edits.get(file).push(...ofProperty(node))
    if (ts.isMethodSignature(node) && node.questionToken) edits.get(file).push(...ofMethod(node))
    // A function that users write is given its parameters, and gives its result.
    if (ts.isFunctionTypeNode(node) || ts.isMethodSignature(node)) return node.type && written(node.type)
    ts.forEachChild(node, written)
  }
  const find = (node) => {
    if (ts.isParameter(node) && node.type) return written(node.type)
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return
    ts.forEachChild(node, find)
  }
  files.forEach(find)
  return Object.fromEntries(files.map((file) => [file.fileName, edited(file.text, edits.get(file))]))
}

function typesOf(file) {
  const types = new Map()
  for (const statement of file.statements) {
    if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) {
      types.set(statement.name.text, [...(types.get(statement.name.text) ?? []), statement])
    }
  }
  return types
}

function edited(code, edits) {
  return edits
    .sort((one, other) => other.at - one.at)
    .reduce((text, { at, end, insert }) => text.slice(0, at) + insert + text.slice(end), code)
}

const takes = (text) => /(^|\| )(undefined|unknown|any)$/.test(text)

/** Edits are insertions, so that those within a type and those around it do not meet. */
const insertion = (at, insert) => ({ at, end: at, insert })

function ofProperty({ type }) {
  if (takes(type.getText())) return []
  const isOpen = ts.isFunctionTypeNode(type) || ts.isConditionalTypeNode(type)
  if (!isOpen) return [insertion(type.getEnd(), ' | undefined')]
  return [insertion(type.getStart(), '('), insertion(type.getEnd(), ') | undefined')]
}

/** A method can't be `undefined`, a property that is a function can. */
function ofMethod({ questionToken, type }) {
  const { text } = questionToken.getSourceFile()
  const colon = text.lastIndexOf(':', type.getStart())
  return [
    insertion(questionToken.getEnd(), ': ('),
    { at: colon, end: colon + 1, insert: ' =>' },
    insertion(type.getEnd(), ') | undefined'),
  ]
}
