// The same as runtime.d.ts, for `import` under Node's own rules.
import * as runtime from './runtime.js'
export * from './runtime.js'
export default runtime
