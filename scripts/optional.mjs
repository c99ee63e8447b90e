// Optional properties of what users write take `undefined` as well: `{ resume: undefined }` counts as absent at run time, and so it
// has to compile under `exactOptionalPropertyTypes`.
import ts from '@typescript/typescript6'

/** The declarations, where each optional property of a parameter's type says `| undefined`. */
export function takingUndefined(code) {
  const file = ts.createSourceFile('index.d.ts', code, ts.ScriptTarget.Latest, true)
  const types = new Map()
  for (const statement of file.statements) {
    if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) {
      types.set(statement.name.text, [...(types.get(statement.name.text) ?? []), statement])
    }
  }
  const seen = new Set()
  const edits = []
  const written = (node) => {
    if (seen.has(node)) return
    seen.add(node)
    if (ts.isTypeReferenceNode(node) || ts.isExpressionWithTypeArguments(node)) {
      const name = (node.typeName ?? node.expression).getText()
      types.get(name)?.forEach(written)
    }
    if (ts.isPropertySignature(node) && node.questionToken && node.type) edits.push(...ofProperty(node))
    if (ts.isMethodSignature(node) && node.questionToken) edits.push(...ofMethod(node))
    // A function that users write is given its parameters, and gives its result.
    if (ts.isFunctionTypeNode(node) || ts.isMethodSignature(node)) return node.type && written(node.type)
    ts.forEachChild(node, written)
  }
  const find = (node) => {
    if (ts.isParameter(node) && node.type) return written(node.type)
    if (ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return
    ts.forEachChild(node, find)
  }
  find(file)
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
