// The package as users get it: publint and attw look at what `npm pack` makes.
import { bin, step } from './step.mjs'
import { writeGenerated } from './generated.mjs'

export function checkPackage() {
  writeGenerated()
  step('the package (publint)', bin('publint'), ['--strict', '--pack', 'npm'])
  step('the types of the package (attw)', bin('attw'), ['--pack', '.', '--quiet'])
}
