// The same as fleet.d.ts, for `import` under Node's own rules.
import * as fleet from './fleet.js'
export * from './fleet.js'
export default fleet
