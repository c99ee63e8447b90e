// The same as model.d.ts, for `import` under Node's own rules.
import * as model from './model.js'
export * from './model.js'
export default model
