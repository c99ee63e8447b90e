// The same as testing.d.ts, for `import` under Node's own rules.
import * as testing from './testing.js'
export * from './testing.js'
export default testing
