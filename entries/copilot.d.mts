// The same as copilot.d.ts, for `import` under Node's own rules.
import * as copilot from './copilot.js'
export * from './copilot.js'
export default copilot
